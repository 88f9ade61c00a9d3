// Work that repeats itself while a page is open and seen: slower while it fails.

const AGAIN_MS = 2_000;
const SLOWEST_MS = 60_000;

/**
 * @param {number} seconds
 * @param {(polled: boolean) => Promise<void>} work  `polled`: nobody asked for it just now
 * @param {AbortSignal} signal  ends it
 * @param {(error: unknown, next_ms: number) => void} failed
 * @param {() => void} worked
 * @returns {() => void}  has it done now
 */
export function repeat(seconds, work, signal, failed, worked) {
  let failures = 0;
  let timer = 0;
  let running = false;
  let again = false;

  /** @param {boolean} polled */
  async function run(polled) {
    clearTimeout(timer);
    if (signal.aborted) return;
    if (running) {
      again = !polled || again;
      return;
    }
    running = true;
    try {
      await work(polled);
      failures = 0;
      if (!signal.aborted) worked();
    } catch (error) {
      failures += 1;
      if (!signal.aborted) failed(error, wait());
    } finally {
      running = false;
    }
    if (again) {
      again = false;
      void run(false);
    } else if (!signal.aborted && !document.hidden) {
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
