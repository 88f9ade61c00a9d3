// Failures: messages of dead-letter and error queues, grouped by what went wrong; returned by group.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { card, rows } from "../lib/cards.js";
import { classOf } from "../lib/classes.js";
import { problem } from "../lib/dialogs.js";
import { fill, h, refresh } from "../lib/dom.js";
import { failures } from "../lib/failures.js";
import { count, many, time } from "../lib/format.js";
import { giveBack } from "../lib/message_acts.js";
import { nameOf } from "../lib/queues.js";
import { Table } from "../lib/table.js";

/** @typedef {import("../types.js").FailureGroupJson} Group */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "failures", title: "Failures", role: "read", key: "f", show };

const NOTES = "posthouse.notes";
const NOTES_MAX = 500;

/** Notes of this browser on groups. @returns {Record<string, string>} */
function notes() {
  try {
    return Object.assign(Object.create(null), JSON.parse(localStorage.getItem(NOTES) ?? "{}"));
  } catch {
    return Object.create(null);
  }
}

/** @param {string} key  @param {string} text */
function keepNote(key, text) {
  const { [key]: _, ...others } = notes();
  const kept = Object.entries(text ? { ...others, [key]: text } : others).slice(-NOTES_MAX);
  localStorage.setItem(NOTES, JSON.stringify(Object.fromEntries(kept)));
}

/** @param {import("../lib/page.js").Context} context */
function show({ main, path, query, may, session, signal, poll }) {
  const queue = path[0] ?? "";
  const similar = query.get("similar") === "yes";
  const answer = h("div", {});
  const shown = h("span", { class: "muted", role: "status" });
  /** @type {Table<Group>} */
  const table = new Table({
    name: "failures",
    label: "Groups of failed messages",
    key: (row) => row.key,
    empty: "No message failed here.",
    columns: [
      { name: "count", title: "Messages", number: true, fixed: true, show: (row) => count(row.count), sort: (row) => row.count },
      {
        name: "reason",
        title: "What went wrong",
        fixed: true,
        show: (row) => [row.exception_type ? h("strong", {}, row.exception_type) : classOf(row.class), row.exception_message && h("p", {}, row.exception_message), row.frame && h("p", { class: "mono muted" }, row.frame)],
        sort: (row) => row.exception_type ?? row.class,
      },
      { name: "type", title: "Type of message", show: (row) => row.message_type ?? "", sort: (row) => row.message_type },
      { name: "queues", title: "Failed in", show: (row) => row.failed_queues.join(", ") },
      { name: "last", title: "Last", show: (row) => time(row.last_time), sort: (row) => row.last_time },
      { name: "first", title: "First", optional: true, show: (row) => time(row.first_time), sort: (row) => row.first_time },
      { name: "examples", title: "Examples", show: (row) => row.examples.map((one) => [h("a", { class: "example", href: to("messages", [queue, String(one.lookup_id)]), "data-focus": `example ${one.lookup_id}` }, one.lookup_id), " "]) },
      { name: "note", title: "Note", show: (row) => h("input", { "aria-label": `Note on ${row.exception_type ?? row.class}`, maxlength: 200, value: notes()[row.key] ?? "", onchange: (/** @type {any} */ event) => keepNote(row.key, event.target.value.trim()) }) },
      ...(may("operate") ? [{ name: "acts", title: "Acts", fixed: true, show: (/** @type {Group} */ row) => h("button", { type: "button", "data-focus": `return ${row.key}`, onclick: () => void giveBack({ queue, chosen: { group: row.key }, named: row.exception_type ?? row.class, done: () => { void load(); countAgain(); } }) }, "Return") }] : []),
    ],
  });
  const chooser = h("select", { "aria-label": "Queue", id: "queue", "data-filter": "", onchange: () => { location.hash = to("failures", chooser.value ? [chooser.value] : [], { similar: alike.checked ? "yes" : "" }); } });
  const alike = h("input", { type: "checkbox", id: "similar", checked: similar, onchange: () => { location.hash = to("failures", queue ? [queue] : [], { similar: alike.checked ? "yes" : "" }); } });

  const candidates = h("div", {});

  async function load() {
    if (!queue) return;
    fill(answer);
    shown.textContent = "Looking…";
    try {
      const found = await failures(queue, similar ? { similar } : {}, { signal });
      table.update(found.groups);
      shown.textContent = `${many(found.groups.length, "group")}, ${many(found.scanned, "message")} looked at${found.others ? `, ${count(found.others)} in other groups` : ""}`;
    } catch (error) {
      if (!signal.aborted) fill(answer, problem(error));
      shown.textContent = "";
    }
  }

  main.append(
    h("div", { class: "heading" }, h("h1", {}, "Failures"), shown),
    h("div", { class: "toolbar" }, chooser, h("label", { class: "way", for: "similar" }, alike, "Messages that differ in numbers only are alike"), h("span", { class: "spacer" }), table.chooser()),
    answer,
    queue ? h("section", { class: "card" }, table.element) : candidates,
  );
  void load();
  const countAgain = poll(15, async (polled) => {
    const listed = await call("list_queues", { system: true }, null, { polled, signal });
    const some = listed.queues.filter((one) => one.kind.includes("dead") || /error|fail|poison|dead/i.test(one.path) || nameOf(one) === queue);
    const full = some.filter((one) => one.messages > 0);
    refresh(candidates, full.map((one) => [nameOf(one), one.messages]), () => card("Queues with failed messages", rows(["Queue", "#Messages"], full.map((one) => [h("a", { href: to("failures", [nameOf(one)]) }, nameOf(one)), count(one.messages)]), session.administrator ? "No dead-letter or error queue has a message." : "No dead-letter or error queue that you may look at has a message.")));
    fill(chooser, h("option", { value: "" }, "Choose a queue"), some.map((one) => h("option", { value: nameOf(one), selected: nameOf(one) === queue }, `${nameOf(one)} (${count(one.messages)})`)));
  });
}
