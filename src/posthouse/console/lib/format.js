// Figures and times as people read them.

import { h } from "./dom.js";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** @param {number} value */
export function count(value) {
  return value.toLocaleString("en-US");
}

/** @param {number} value  @param {string} noun */
export function many(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** @param {number} value */
export function bytes(value) {
  let rank = 0;
  while (value >= 1024 && rank < UNITS.length - 1) {
    value /= 1024;
    rank += 1;
  }
  return `${rank && value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString("en-US")} ${UNITS[rank]}`;
}

/** @param {number} value  per second */
export function rate(value) {
  if (value === 0) return "0";
  return value < 10 ? value.toFixed(1) : count(Math.round(value));
}

/** @param {number | null | undefined} seconds */
export function age(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

/** @param {string | null | undefined} text  ISO 8601 in UTC */
export function time(text) {
  if (!text) return "";
  const moment = new Date(text);
  if (Number.isNaN(moment.getTime())) return text;
  const pad = (/** @type {number} */ value) => String(value).padStart(2, "0");
  return (
    `${moment.getFullYear()}-${pad(moment.getMonth() + 1)}-${pad(moment.getDate())} ` +
    `${pad(moment.getHours())}:${pad(moment.getMinutes())}:${pad(moment.getSeconds())}`
  );
}

/** A name of a queue that breaks between its parts. @param {string | null | undefined} name  @returns {import("./dom.js").Child[]} */
export function breakable(name) {
  return (name ?? "").split(/(?<=[\\:;=])/).flatMap((part, place) => (place ? [h("wbr"), part] : [part]));
}

/** The last part of a path name, and what goes before it. @param {string} path */
export function parts(path) {
  const cut = path.lastIndexOf("\\") + 1;
  return { before: path.slice(0, cut), name: path.slice(cut) };
}
