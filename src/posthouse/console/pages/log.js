// The event log of the queue manager, line by line as it is written.

import { call } from "../lib/api.js";
import { problem } from "../lib/dialogs.js";
import { fill, h } from "../lib/dom.js";
import { count, time } from "../lib/format.js";
import { Table } from "../lib/table.js";

/** @typedef {import("../types.js").LogLineJson} Line */
/** @typedef {NonNullable<import("../types.js").LogTailParams["level"]>} Level */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "log", title: "Log", role: "administer", key: "e", show };

const KEPT = 1000;
const WAIT_MS = 20000;
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
  const answer = h("div", {});
  const pause = h("button", { type: "button", id: "pause" }, "Pause");
  const level = h("select", { "aria-label": "Level" }, LEVELS.map(([value, text]) => h("option", { value }, text)));
  const words = h("input", { type: "search", "aria-label": "Filter", placeholder: "Words of a line", "data-filter": "" });
  /** @type {Line[]} */
  let kept = [];
  let lost = 0;
  /** @type {AbortController | null} */
  let following = null;
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

  async function follow() {
    const mine = (following = new AbortController());
    const leave = () => mine.abort();
    signal.addEventListener("abort", leave);
    pause.textContent = "Pause";
    fill(answer);
    kept = [];
    lost = 0;
    /** @type {number | undefined} */
    let after;
    try {
      while (!mine.signal.aborted) {
        const asked = { level: /** @type {Level} */ (level.value), limit: 500 };
        const found = await call("tail_log", after === undefined ? asked : { ...asked, after, wait_ms: WAIT_MS }, null, { polled: true, signal: mine.signal });
        after = found.after;
        lost += found.left_out;
        kept = [...found.lines.reverse(), ...kept].slice(0, KEPT);
        draw();
      }
    } catch (error) {
      if (!mine.signal.aborted) fill(answer, problem(error));
    } finally {
      signal.removeEventListener("abort", leave);
      if (following === mine) {
        following = null;
        pause.textContent = "Go on";
      }
    }
  }

  pause.onclick = () => {
    if (following) following.abort();
    else void follow();
  };
  level.onchange = () => {
    following?.abort();
    void follow();
  };
  words.oninput = draw;
  main.append(h("div", { class: "heading" }, h("h1", {}, "Log"), progress, pause), h("div", { class: "toolbar" }, words, level), answer, h("section", { class: "card" }, table.element));
  void follow();
}
