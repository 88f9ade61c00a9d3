// Groups of failed messages, of all pages of a long queue.

import { call } from "./api.js";

/** @typedef {import("../types.js").FailureGroupJson} Group */

/**
 * @param {string} queue
 * @param {{where?: string, similar?: boolean}} which
 * @param {{polled?: boolean, signal?: AbortSignal}} asked
 * @param {number} pages  at most
 */
export async function failures(queue, which, asked, pages = 100) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  let others = 0;
  let scanned = 0;
  /** @type {string | null} */
  let after = null;
  do {
    /** @type {import("../types.js").FailuresJson} */
    const page = await call("list_failures", { queue, ...which, ...(after ? { after } : {}) }, null, asked);
    for (const one of page.groups) {
      const known = groups.get(one.key);
      if (known) {
        known.count += one.count;
        if (one.first_time < known.first_time) known.first_time = one.first_time;
        if (one.last_time > known.last_time) known.last_time = one.last_time;
      } else {
        groups.set(one.key, one);
      }
    }
    others += page.others;
    scanned += page.scanned;
    after = page.next;
    pages -= 1;
  } while (after && pages > 0);
  return { groups: [...groups.values()].sort((left, right) => right.count - left.count), others, scanned, whole: !after };
}
