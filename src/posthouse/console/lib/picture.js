// Pictures of machines and sites: where messages go next, and how sites are linked.

import { h, s } from "./dom.js";
import { count, many } from "./format.js";

/** @typedef {{name: string, messages: number, paused: number, failed: boolean, machines: string[]}} Hop  the next machine, and those that messages go to by it */

const ROW = 34;
const LETTERS_MAX = 26;
const DRAWN_MAX = 24;

/** @param {string} text */
const cut = (text) => (text.length > LETTERS_MAX ? `${text.slice(0, LETTERS_MAX - 1)}…` : text);

/** @param {string} label  @param {number} width  @param {number} height  @param {...import("./dom.js").Child} content */
function framed(label, width, height, ...content) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Picture" },
    s("svg", { viewBox: `0 0 ${width} ${height}`, width: String(width), height: String(height), role: "img", "aria-label": label, class: "picture" }, content),
  );
}

/** A name in a frame; the whole of a long one is its title. @param {number} x  left  @param {number} y  middle  @param {string} name  @param {string} [kind] */
function box(x, y, name, kind = "") {
  return s("g", { class: `node ${kind}` }, s("title", {}, name), s("rect", { x: String(x), y: String(y - 13), width: "190", height: "26", rx: "6" }), s("text", { x: String(x + 95), y: String(y + 4), "text-anchor": "middle" }, cut(name)));
}

/** @param {number} x1  @param {number} y1  @param {number} x2  @param {number} y2  @param {boolean} broken */
function line(x1, y1, x2, y2, broken) {
  const middle = (x1 + x2) / 2;
  return s("path", { class: broken ? "edge broken" : "edge", d: `M${x1} ${y1} C ${middle} ${y1}, ${middle} ${y2}, ${x2} ${y2}` });
}

/**
 * This machine, the machines that messages go to next, and those after them.
 * @param {string} name
 * @param {Hop[]} hops
 */
export function routes(name, hops) {
  const shown = hops.slice(0, DRAWN_MAX);
  /** @type {import("./dom.js").Child[]} */
  const parts = [];
  let row = 0;
  /** @type {number[]} */
  const ends = [];
  for (const hop of shown) {
    const beyond = hop.machines.filter((one) => one.toLowerCase() !== hop.name.toLowerCase()).slice(0, DRAWN_MAX);
    const size = Math.max(beyond.length, 1);
    const y = (row + size / 2) * ROW;
    beyond.forEach((one, place) => {
      const at = (row + place + 0.5) * ROW;
      parts.push(line(610, y, 670, at, hop.failed), box(670, at, one));
    });
    ends.push(y);
    const words = `${many(hop.messages, "message")}${hop.failed ? ", does not connect" : hop.paused ? `, ${count(hop.paused)} paused` : ""}`;
    parts.push(box(420, y, hop.name, hop.failed ? "bad" : ""), s("text", { class: "words", x: "412", y: String(y - 5), "text-anchor": "end" }, words));
    row += size;
  }
  const height = Math.max(row, 2) * ROW;
  const edges = shown.map((hop, place) => line(200, height / 2, 420, ends[place] ?? 0, hop.failed));
  const told = shown.map((one) => `${one.name}${one.failed ? " (does not connect)" : ""}${one.machines.length ? ` and by it to ${one.machines.join(", ")}` : ""}`).join("; ");
  return framed(`${name} sends to ${told}`, 870, height, edges, box(10, height / 2, name, "own"), parts);
}

/**
 * Sites in a circle, with lines for their links.
 * @param {string[]} names
 * @param {Array<{sites: string[], cost: number}>} links
 */
export function sites(names, links) {
  const shown = names.slice(0, DRAWN_MAX);
  const radius = Math.max(70, shown.length * 22);
  const reach = radius + 60; // boxes are wide: two beside each other need room
  const [width, height] = [2 * reach + 220, 2 * radius + 60];
  const places = new Map(
    shown.map((name, place) => {
      const angle = (2 * Math.PI * place) / shown.length - Math.PI / 2;
      return [name.toLowerCase(), { x: width / 2 + reach * Math.cos(angle), y: height / 2 + radius * Math.sin(angle) }];
    }),
  );
  const edges = links.flatMap((one) => {
    const [from, next] = one.sites.map((name) => places.get(name.toLowerCase()));
    if (!from || !next) return [];
    return [s("path", { class: "edge", d: `M${from.x} ${from.y} L ${next.x} ${next.y}` }), s("text", { class: "words", x: String((from.x + next.x) / 2 + 6), y: String((from.y + next.y) / 2 - 4) }, `cost ${one.cost}`)];
  });
  const nodes = shown.map((name) => {
    const at = /** @type {{x: number, y: number}} */ (places.get(name.toLowerCase()));
    return box(at.x - 95, at.y, name);
  });
  const told = links.map((one) => `${one.sites.join(" and ")} at cost ${one.cost}`).join("; ");
  return framed(`Sites ${shown.join(", ")}. Links: ${told || "none"}`, width, height, edges, nodes);
}

/** The machines that a message passes, one after the other. @param {string[]} machines */
export function way(machines) {
  const shown = machines.slice(0, DRAWN_MAX);
  return framed(`The way: ${machines.join(", then ")}`, shown.length * 230, 46, shown.map((name, place) => [place > 0 && line(place * 230 - 30, 23, place * 230 + 10, 23, false), box(place * 230 + 10, 23, name, place ? "" : "own")]));
}
