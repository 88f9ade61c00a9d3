// Queues as a tree: a queue, below it its journal and its subqueues.

import { to } from "./address.js";
import { h } from "./dom.js";
import { parts } from "./format.js";

/** @typedef {import("../types.js").QueueJson} Queue */
/** @typedef {{queue: Queue, depth: number, place: string}} TreeRow */

/** What a queue is called: outgoing queues have no path. @param {Queue} queue */
export const nameOf = (queue) => queue.path || queue.format_name;

/** The queue that a written name means: a bare name is a private queue. @param {string} text */
export function named(text) {
  const name = text.trim();
  return !name || /[\\/=]/.test(name) ? name : `.\\private$\\${name}`;
}

/** Whether an operator has paused an outgoing queue. @param {Queue} queue */
export const isPaused = (queue) => queue.state === "on_hold";

/** The states of outgoing queues, in words. @type {Record<string, string>} */
const STATES = { on_hold: "paused", need_validation: "address not resolved", local_connection: "of this machine" };

/** @param {Queue} queue */
export const stateOf = (queue) => STATES[queue.state] ?? (/^(disconnected|inactive)$/.test(queue.state) && queue.messages === 0 ? "idle" : queue.state.replaceAll("_", " "));

/** When an outgoing queue tries again to connect; null if it does not. @param {Queue} queue */
export const nextTry = (queue) => (queue.messages > 0 && !isPaused(queue) ? queue.outgoing?.next_retry_time : null);

/** Whether an outgoing queue has something to send and no connection, so that an operator can have it try. @param {Queue} queue */
export const canConnect = (queue) => queue.kind === "outgoing" && queue.messages > 0 && !isPaused(queue) && queue.state !== "connected";

/** Whether the messages of a queue take up nearly all of its quota. @param {Queue} queue */
export const isNearlyFull = (queue) => Boolean(queue.quota_kib) && queue.bytes >= Number(queue.quota_kib) * 1024 * 0.95;

/** The queue that a journal or a subqueue belongs to. @param {string} path */
export function ownerOf(path) {
  const cut = path.indexOf(";");
  return cut < 0 ? "" : path.slice(0, cut);
}

/** Queues in the order of their names, each before what belongs to it. @param {Queue[]} queues  @returns {TreeRow[]} */
export function inTree(queues) {
  const known = new Set(queues.map((one) => one.path.toLowerCase()));
  return queues
    .map((queue) => {
      const name = nameOf(queue);
      const owner = ownerOf(name);
      const rank = { outgoing: "2", private: "1", public: "1" }[queue.kind] ?? (owner ? "1" : "3");
      return { queue, depth: owner && known.has(owner.toLowerCase()) ? 1 : 0, place: `${rank} ${name.toLowerCase().replace(";", "\u0001")}` };
    })
    .sort((left, right) => (left.place < right.place ? -1 : 1));
}

/** @param {Queue} queue  @param {string} text */
export function matches(queue, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const whole = `${nameOf(queue)} ${queue.label} ${queue.kind} ${queue.state}`.toLowerCase();
  return words.every((word) => whole.includes(word));
}

/** @param {TreeRow} row */
export function nameCell({ queue, depth }) {
  const name = nameOf(queue);
  const own = depth ? `;${name.slice(name.indexOf(";") + 1)}` : queue.kind === "outgoing" ? name : parts(name).name;
  return h(
    "span",
    { class: `name-cell${depth ? " indent-1" : ""}`, title: name },
    h("a", { href: to("queues", [name]), "data-focus": `queue ${name}` }, own || name),
    queue.kind !== "private" && h("span", { class: `badge ${queue.kind.includes("dead") ? "warn" : "quiet"}` }, queue.kind.replace("_", " ")),
    queue.transactional && h("span", { class: "badge quiet" }, "transactional"),
    isPaused(queue) && h("span", { class: "badge warn" }, "paused"),
    isNearlyFull(queue) && h("span", { class: "badge warn" }, "nearly full"),
  );
}
