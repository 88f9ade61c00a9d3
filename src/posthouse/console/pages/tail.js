// Live tail: the messages of a queue as they arrive; none is taken.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { classOf } from "../lib/classes.js";
import { fill, h } from "../lib/dom.js";
import { Follower, WAIT_MS } from "../lib/follow.js";
import { bytes, count, time } from "../lib/format.js";
import { nameOf, named } from "../lib/queues.js";
import { Table } from "../lib/table.js";

/** @typedef {import("../types.js").MessageJson} Message */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "tail", title: "Live tail", role: "look", key: "v", show };

const KEPT = 200;

/** @param {import("../lib/page.js").Context} context */
function show(context) {
  const { main, path, signal } = context;
  const queue = path[0] ?? "";
  const names = h("datalist", { id: "queue-names" });
  const chooser = h("input", { "aria-label": "Queue", placeholder: "Queue", list: "queue-names", value: queue, id: "queue", "data-filter": "", autocomplete: "off", spellcheck: "false" });
  const progress = h("span", { class: "muted", role: "status" });
  /** @type {Message[]} */
  let shown = [];
  let seen = 0;
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

  /** @type {(after: number | undefined, signal: AbortSignal) => Promise<number>} */
  async function next(after, signal) {
    const found = await call("tail_queue", { queue, wait_ms: after === undefined ? 0 : WAIT_MS, bodies: false, ...(after === undefined ? {} : { after }) }, null, { polled: true, signal });
    seen += found.messages.length;
    shown = [...found.messages.reverse(), ...shown].slice(0, KEPT);
    table.update(shown);
    progress.textContent = `${count(seen)} arrived${seen > KEPT ? `, the last ${count(KEPT)} are shown` : ""}`;
    return found.after;
  }

  const follower = new Follower(signal, next);
  follower.pause.hidden = !queue;
  main.append(
    h("div", { class: "heading" }, h("h1", {}, queue ? `Live tail of ${queue}` : "Live tail"), progress, follower.pause),
    h("form", { class: "toolbar", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); location.hash = to("tail", chooser.value.trim() ? [named(chooser.value)] : []); } }, chooser, names, h("button", { type: "submit", class: "primary" }, "Show")),
    follower.answer,
    h("section", { class: "card" }, table.element),
  );
  if (queue) follower.start();
  context.poll(60, async (polled) => {
    const listed = await call("list_queues", { system: true }, null, { polled, signal });
    fill(names, listed.queues.map((one) => h("option", { value: nameOf(one) })));
  });
}
