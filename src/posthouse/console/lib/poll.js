// Work that repeats itself while a page is open and seen: slower while it fails, and not once it is refused.

import { ApiError } from "./api.js";

const AGAIN_MS = 2_000;
const SLOWEST_MS = 60_000;

/**
 * @param {number} seconds
 * @param {(polled: boolean) => Promise<void>} work  `polled`: nobody asked for it just now
 * @param {AbortSignal} signal  ends it
 * @param {(error: unknown, next_ms: number | null) => void} failed  null: it is not done again by itself
 * @param {() => void} worked
 * @returns {() => void}  has it done now
 */
export function repeat(seconds, work, signal, failed, worked) {
  let failures = 0;
  let timer = 0;
  let running = false;
  let again = false;
  let refused = false;

  /** @param {boolean} polled */
  async function run(polled) {
    clearTimeout(timer);
    if (signal.aborted || (polled && refused)) return;
    if (running) {
      again = !polled || again;
      return;
    }
    running = true;
    try {
      await work(polled);
      failures = 0;
      refused = false;
      if (!signal.aborted) worked();
    } catch (error) {
      failures += 1;
      refused = error instanceof ApiError && error.status === 403;
      if (!signal.aborted) failed(error, refused ? null : wait());
    } finally {
      running = false;
    }
    if (again) {
      again = false;
      void run(false);
    } else if (!signal.aborted && !document.hidden && !refused) {
      timer = setTimeout(() => void run(true), wait());
    }
  }

  const wait = () => (failures ? Math.min(AGAIN_MS * 2 ** Math.min(failures - 1, 10), SLOWEST_MS) : seconds * 1000);
  const seen = () => {
    if (document.hidden) clearTimeout(timer);
    else void run(true);
  };
  document.addEventListener("visibilitychange", seen, { signal });
  addEventListener("online", seen, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  void run(false);
  return () => void run(false);
}
