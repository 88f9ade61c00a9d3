// Classes of messages: the word of the API, and beside it what it means.

import { h } from "./dom.js";
import { CLASSES } from "./words.js";

/** What a class means, in words. @param {string} name */
export const meaningOf = (name) => CLASSES.get(name) ?? "a class of the application's own";

/** A class with its meaning. @param {string} name */
export function classOf(name) {
  return [h("span", { class: `badge ${name.startsWith("nack") ? "bad" : "quiet"}` }, name), h("p", { class: "hint" }, meaningOf(name))];
}
