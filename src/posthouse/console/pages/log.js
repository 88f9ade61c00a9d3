// The event log of the queue manager, line by line as it is written.

import { call } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { Follower, WAIT_MS } from "../lib/follow.js";
import { count, time } from "../lib/format.js";
import { Table } from "../lib/table.js";

/** @typedef {import("../types.js").LogLineJson} Line */
/** @typedef {NonNullable<import("../types.js").LogTailParams["level"]>} Level */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "log", title: "Log", role: "administer", key: "e", show };

const KEPT = 1000;
/** @type {Array<[Level, string]>} */
const LEVELS = [
  ["debug", "All lines"],
  ["warning", "Warnings and errors"],
  ["error", "Errors"],
];
/** @type {Record<string, string>} */
const GRADES = { warning: "warn", error: "bad" };

/** @param {import("../lib/page.js").Context} context */
function show({ main, signal }) {
  const progress = h("span", { class: "muted", role: "status" });
  const level = h("select", { "aria-label": "Level" }, LEVELS.map(([value, text]) => h("option", { value }, text)));
  const words = h("input", { type: "search", "aria-label": "Filter", placeholder: "Words of a line", "data-filter": "" });
  /** @type {Line[]} */
  let kept = [];
  let lost = 0;
  /** @type {Table<Line>} */
  const table = new Table({
    name: "log",
    label: "Lines of the log, the newest first",
    sortable: false,
    key: (row) => String(row.number),
    empty: "No line fits.",
    columns: [
      { name: "time", title: "Time", fixed: true, show: (row) => time(row.time) },
      { name: "level", title: "Level", show: (row) => (GRADES[row.level] ? h("span", { class: `badge ${GRADES[row.level]}` }, row.level) : row.level) },
      { name: "event", title: "Event", show: (row) => row.event },
      { name: "text", title: "Details", show: (row) => h("span", { class: "mono wrap" }, row.text) },
    ],
  });

  function draw() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fitting = kept.filter((one) => wanted.every((word) => `${one.level} ${one.event} ${one.text}`.toLowerCase().includes(word)));
    table.update(fitting);
    progress.textContent = `${count(fitting.length)} lines${lost ? `, ${count(lost)} were too many to keep` : ""}`;
  }

  /** @type {(after: number | undefined, signal: AbortSignal) => Promise<number>} */
  async function next(after, signal) {
    const asked = { level: /** @type {Level} */ (level.value), limit: 500 };
    const found = await call("tail_log", after === undefined ? asked : { ...asked, after, wait_ms: WAIT_MS }, null, { polled: true, signal });
    lost += found.left_out;
    kept = [...found.lines.reverse(), ...kept].slice(0, KEPT);
    draw();
    return found.after;
  }

  const follower = new Follower(signal, next, () => {
    kept = [];
    lost = 0;
  });
  level.onchange = () => follower.start();
  words.oninput = draw;
  main.append(h("div", { class: "heading" }, h("h1", {}, "Log"), progress, follower.pause), h("div", { class: "toolbar" }, words, level), follower.answer, h("section", { class: "card" }, table.element));
  follower.start();
}
