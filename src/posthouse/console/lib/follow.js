// Follows what grows: one request after the other, each for what is new, until it is paused.

import { problem } from "./dialogs.js";
import { fill, h } from "./dom.js";

/** How long a request waits for something new. */
export const WAIT_MS = 20000;

export class Follower {
  /**
   * @param {AbortSignal} signal of the page
   * @param {(after: number | undefined, signal: AbortSignal) => Promise<number>} next asks once, and
   *   returns where the next request goes on
   * @param {() => void} begin what is done first, each time it begins
   */
  constructor(signal, next, begin = () => {}) {
    this.signal = signal;
    this.next = next;
    this.begin = begin;
    this.answer = h("div", {});
    this.pause = h("button", { type: "button", id: "pause" }, "Pause");
    this.pause.onclick = () => (this.running ? this.stop() : this.start());
    /** @type {AbortController | null} */
    this.running = null;
  }

  start() {
    this.stop();
    void this.#follow();
  }

  stop() {
    this.running?.abort();
  }

  async #follow() {
    const mine = (this.running = new AbortController());
    const leave = () => mine.abort();
    this.signal.addEventListener("abort", leave);
    this.pause.textContent = "Pause";
    fill(this.answer);
    this.begin();
    /** @type {number | undefined} */
    let after;
    try {
      while (!mine.signal.aborted) after = await this.next(after, mine.signal);
    } catch (error) {
      if (!mine.signal.aborted) fill(this.answer, problem(error));
    } finally {
      this.signal.removeEventListener("abort", leave);
      if (this.running === mine) {
        this.running = null;
        this.pause.textContent = "Go on";
      }
    }
  }
}
