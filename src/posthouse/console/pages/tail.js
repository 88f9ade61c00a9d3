// Live tail: the messages of a queue as they arrive; none is taken.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { classOf } from "../lib/classes.js";
import { problem } from "../lib/dialogs.js";
import { fill, h } from "../lib/dom.js";
import { bytes, count, time } from "../lib/format.js";
import { nameOf, named } from "../lib/queues.js";
import { Table } from "../lib/table.js";

/** @typedef {import("../types.js").MessageJson} Message */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "tail", title: "Live tail", role: "look", key: "v", show };

const KEPT = 200;
const WAIT_MS = 20000;

/** @param {import("../lib/page.js").Context} context */
function show(context) {
  const { main, path, signal } = context;
  const queue = path[0] ?? "";
  const names = h("datalist", { id: "queue-names" });
  const chooser = h("input", { "aria-label": "Queue", placeholder: "Queue", list: "queue-names", value: queue, id: "queue", "data-filter": "", autocomplete: "off", spellcheck: "false" });
  const progress = h("span", { class: "muted", role: "status" });
  const answer = h("div", {});
  const pause = h("button", { type: "button", id: "pause", hidden: !queue }, "Pause");
  /** @type {Message[]} */
  let shown = [];
  let seen = 0;
  /** @type {AbortController | null} */
  let following = null;
  /** @type {Table<Message>} */
  const table = new Table({
    name: "tail",
    label: "Messages that arrived",
    sortable: false,
    key: (row) => String(row.lookup_id),
    empty: queue ? "Nothing has arrived since you opened this page." : "Choose a queue.",
    columns: [
      { name: "id", title: "Lookup id", number: true, fixed: true, show: (row) => h("a", { href: to("messages", [row.queue, String(row.lookup_id)]) }, row.lookup_id) },
      { name: "arrived", title: "Arrived", show: (row) => time(row.arrived_time) },
      { name: "label", title: "Label", show: (row) => row.label || h("span", { class: "muted" }, "none") },
      { name: "class", title: "Class", show: (row) => (row.class === "normal" ? "" : classOf(row.class)) },
      { name: "size", title: "Body", number: true, show: (row) => bytes(row.body_size) },
      { name: "priority", title: "Priority", number: true, show: (row) => row.priority },
      { name: "sender", title: "Sender", optional: true, show: (row) => row.sender },
    ],
  });

  async function follow() {
    const mine = (following = new AbortController());
    const leave = () => mine.abort();
    signal.addEventListener("abort", leave);
    pause.textContent = "Pause";
    fill(answer);
    /** @type {number | undefined} */
    let after;
    try {
      while (!mine.signal.aborted) {
        const found = await call("tail_queue", { queue, wait_ms: after === undefined ? 0 : WAIT_MS, bodies: false, ...(after === undefined ? {} : { after }) }, null, { polled: true, signal: mine.signal });
        after = found.after;
        seen += found.messages.length;
        shown = [...found.messages.reverse(), ...shown].slice(0, KEPT);
        table.update(shown);
        progress.textContent = `${count(seen)} arrived${seen > KEPT ? `, the last ${count(KEPT)} are shown` : ""}`;
      }
    } catch (error) {
      if (!mine.signal.aborted) fill(answer, problem(error));
    } finally {
      signal.removeEventListener("abort", leave);
      if (following === mine) following = null;
      pause.textContent = "Go on";
    }
  }

  pause.onclick = () => {
    if (following) following.abort();
    else void follow();
  };
  main.append(
    h("div", { class: "heading" }, h("h1", {}, queue ? `Live tail of ${queue}` : "Live tail"), progress, pause),
    h("form", { class: "toolbar", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); location.hash = to("tail", chooser.value.trim() ? [named(chooser.value)] : []); } }, chooser, names, h("button", { type: "submit", class: "primary" }, "Show")),
    answer,
    h("section", { class: "card" }, table.element),
  );
  if (queue) void follow();
  context.poll(60, async (polled) => {
    const listed = await call("list_queues", { system: true }, null, { polled, signal });
    fill(names, listed.queues.map((one) => h("option", { value: nameOf(one) })));
  });
}
