// Queues: all of them as a tree with journals and subqueues, live counts, and what is done with them.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { unseen } from "../lib/cards.js";
import { h } from "../lib/dom.js";
import { createQueue } from "../lib/queue_acts.js";
import { age, bytes, count, rate } from "../lib/format.js";
import { inTree, matches, nameCell, nameOf } from "../lib/queues.js";
import { Table } from "../lib/table.js";
import { showQueue } from "./queue.js";

/** @typedef {import("../types.js").QueueJson} Queue */
/** @typedef {import("../lib/queues.js").TreeRow} Row */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "queues", title: "Queues", role: "look", key: "q", show };

/** Zeros stand back. @param {number} value  @param {(value: number) => string} text */
const quiet = (value, text) => (value ? text(value) : h("span", { class: "muted" }, "0"));

/** @param {import("../lib/page.js").Context} context */
function show(context) {
  const { main, path, poll, query, session: { administrator }, signal, may } = context;
  if (path[0]) {
    showQueue(context, path[0]);
    return;
  }
  /** @type {Table<Row>} */
  const table = new Table({
    name: "queues",
    label: "Queues",
    key: (row) => nameOf(row.queue),
    empty: "No queue fits.",
    columns: [
      { name: "name", title: "Queue", fixed: true, show: (row) => nameCell(row), sort: (row) => row.place },
      { name: "label", title: "Label", show: (row) => (row.queue.kind === "outgoing" ? "" : row.queue.label), sort: (row) => row.queue.label },
      { name: "messages", title: "Messages", number: true, show: (row) => quiet(row.queue.messages, count), sort: (row) => row.queue.messages },
      { name: "oldest", title: "Oldest", number: true, show: (row) => age(row.queue.oldest_age_s), sort: (row) => row.queue.oldest_age_s },
      { name: "in", title: "In/s", number: true, show: (row) => quiet(row.queue.accepted_per_s, rate), sort: (row) => row.queue.accepted_per_s },
      { name: "out", title: "Out/s", number: true, show: (row) => quiet(row.queue.received_per_s, rate), sort: (row) => row.queue.received_per_s },
      { name: "bytes", title: "Bytes", number: true, show: (row) => quiet(row.queue.bytes, bytes), sort: (row) => row.queue.bytes },
      { name: "locked", title: "Locked", number: true, optional: true, show: (row) => quiet(row.queue.locked, count), sort: (row) => row.queue.locked },
      { name: "readers", title: "Readers", number: true, show: (row) => quiet(row.queue.readers, count), sort: (row) => row.queue.readers },
      { name: "state", title: "State", show: (row) => row.queue.state, sort: (row) => row.queue.state, optional: true },
      { name: "transactional", title: "Transactional", show: (row) => (row.queue.transactional ? "yes" : ""), sort: (row) => row.queue.transactional, optional: true },
      { name: "quota", title: "Quota", number: true, show: (row) => (row.queue.quota_kib === null ? "" : bytes(row.queue.quota_kib * 1024)), sort: (row) => row.queue.quota_kib, optional: true },
      { name: "created", title: "Created", show: (row) => row.queue.created_time, sort: (row) => row.queue.created_time, optional: true },
    ],
  });
  const filter = h("input", { type: "search", "aria-label": "Filter queues", placeholder: "Filter by name, label or kind", "data-filter": "", value: query.get("filter") ?? "" });
  const system = h("input", { type: "checkbox", id: "system", checked: query.get("system") !== "no" });
  const shown = h("span", { class: "muted" });
  /** @type {Queue[]} */
  let queues = [];
  const draw = () => {
    const rows = inTree(queues.filter((one) => matches(one, filter.value)));
    table.update(rows);
    shown.textContent = rows.length === queues.length ? `${count(rows.length)} queues` : `${count(rows.length)} of ${count(queues.length)} queues`;
    history.replaceState(null, "", to("queues", [], { filter: filter.value, system: system.checked ? "" : "no" }));
  };
  filter.addEventListener("input", draw);
  main.append(
    h("div", { class: "heading" }, h("h1", {}, "Queues"), shown, may("administer") && h("button", { type: "button", class: "primary", id: "create", onclick: () => void createQueue(() => now()) }, "Create a queue")),
    h("div", { class: "toolbar" }, filter, h("label", { class: "way", for: "system" }, system, "System queues and journals"), table.chooser()),
    administrator ? "" : unseen("all queues, and the outgoing ones"),
    h("section", { class: "card" }, table.element),
  );
  const now = poll(3, async (polled) => {
    /** @type {Queue[]} */
    const found = [];
    for (let after = 0; ; ) {
      const listed = await call("list_queues", { outgoing: administrator, system: system.checked, after }, null, { polled, signal });
      found.push(...listed.queues);
      if (listed.next === null) break;
      after = listed.next;
    }
    queues = found;
    draw();
  });
  system.addEventListener("change", now);
}
