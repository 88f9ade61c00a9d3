// Parts that most pages have: cards, plain tables, buttons that act and show what went wrong.

import { problem } from "./dialogs.js";
import { cell, fill, h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * @param {string} text
 * @param {() => void} onclick
 * @param {string} focus  its name: the focus stays there when the page is drawn again
 */
export function button(text, onclick, focus) {
  return h("button", { type: "button", onclick, "data-focus": focus }, text);
}

/** @param {string} title  @param {...Child} content */
export function card(title, ...content) {
  return h("section", { class: "card", "aria-label": title }, h("header", {}, h("h2", {}, title)), content);
}

/**
 * A plain table. Titles that begin with # are of figures; an empty title is of buttons.
 * @param {string[]} heads
 * @param {Child[][]} lines
 * @param {string} [empty]
 */
export function rows(heads, lines, empty = "There are none.") {
  if (!lines.length) return h("div", { class: "empty" }, empty);
  const kind = (/** @type {number} */ place) => (heads[place]?.startsWith("#") ? "number" : "");
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" },
    h("table", {}, h("thead", {}, h("tr", {}, heads.map((one, place) => (one ? h("th", { scope: "col", class: kind(place) }, one.replace("#", "")) : h("td", {}))))), h("tbody", {}, lines.map((cells) => h("tr", {}, cells.map((one, place) => cell({ class: kind(place) }, one)))))),
  );
}

/** Names and values. @param {Array<[string, Child]>} pairs */
export function pairs(pairs) {
  return h("div", { class: "body" }, h("dl", { class: "pairs" }, pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

/** Says what the user may not see. @param {string} what */
export function unseen(what) {
  return h("p", { class: "muted unseen" }, `You see what you may look at. Only administrators see ${what}.`);
}

/** A place for what went wrong, and how an act gets there. */
export function acting() {
  const answer = h("div", {});
  /** @param {() => Promise<unknown>} work */
  const act = (work) => async () => {
    fill(answer);
    try {
      await work();
    } catch (error) {
      fill(answer, problem(error));
    }
  };
  return { answer, act };
}

/** A button in a row of buttons. @param {...Child} children */
export function actions(...children) {
  return h("span", { class: "actions" }, children);
}
