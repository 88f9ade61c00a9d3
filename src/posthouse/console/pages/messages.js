// Messages: browsed without taking any, page by page; filters run on the server.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { classOf } from "../lib/classes.js";
import { problem, show as showDialog } from "../lib/dialogs.js";
import { fill, h } from "../lib/dom.js";
import { bytes, count, time } from "../lib/format.js";
import { skippedOf } from "../lib/life.js";
import { copy, exportMessages, giveBack, importMessages, move, remove, resend, send } from "../lib/message_acts.js";
import { nameOf, named } from "../lib/queues.js";
import { Table } from "../lib/table.js";
import { showMessage } from "./message.js";

/** @typedef {import("../types.js").MessageJson} Message */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "messages", title: "Messages", role: "look", key: "m", show };

const PAGE = 50;
const SAVED = "posthouse.filters";

/** @returns {string[]} */
function saved() {
  try {
    const kept = JSON.parse(localStorage.getItem(SAVED) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

/** @param {import("../lib/page.js").Context} context */
function show(context) {
  const { main, path, query, session, signal, may } = context;
  const [queue = "", message = ""] = path;
  if (message) {
    showMessage(context, queue, Number(message));
    return;
  }
  const where = query.get("where") ?? "";
  const after = query.get("after") ?? "";
  const answer = h("div", {});
  const progress = h("span", { class: "muted", role: "status" });
  const stop = h("button", { type: "button", hidden: true, id: "stop" }, "Stop");
  const next = h("button", { type: "button", hidden: true, id: "next" }, "Next page");
  const marked = h("span", { class: "muted" });
  /** @type {Table<Message>} */
  const table = new Table({
    name: "messages",
    label: "Messages",
    sortable: false,
    key: (row) => `${row.queue} ${row.lookup_id}`,
    naming: (row) => `message ${row.lookup_id}`,
    empty: queue || where ? "No message fits." : "Choose a queue, or write a filter to look through all of them.",
    ...(queue ? { marked: (/** @type {Set<string>} */ keys) => { marked.textContent = keys.size ? `${count(keys.size)} marked` : ""; choose(); } } : {}),
    columns: [
      { name: "id", title: "Lookup id", number: true, fixed: true, show: (row) => h("a", { href: to("messages", [row.queue, String(row.lookup_id)]), "data-focus": `message ${row.lookup_id}` }, row.lookup_id) },
      { name: "queue", title: "Queue", optional: Boolean(queue), show: (row) => row.queue },
      { name: "label", title: "Label", show: (row) => row.label || h("span", { class: "muted" }, "none") },
      { name: "class", title: "Class", show: (row) => (row.class === "normal" ? "" : classOf(row.class)) },
      { name: "arrived", title: "Arrived", show: (row) => time(row.arrived_time) },
      { name: "size", title: "Body", number: true, show: (row) => bytes(row.body_size) },
      { name: "priority", title: "Priority", number: true, show: (row) => row.priority },
      { name: "delivery", title: "Delivery", show: (row) => row.delivery },
      { name: "sender", title: "Sender", optional: true, show: (row) => row.sender },
      { name: "sent", title: "Sent", optional: true, show: (row) => time(row.sent_time) },
      { name: "identifier", title: "Identifier", optional: true, show: (row) => h("span", { class: "mono" }, row.id) },
      { name: "correlation", title: "Correlation id", optional: true, show: (row) => h("span", { class: "mono" }, row.correlation_id) },
      { name: "aborts", title: "Aborts", number: true, optional: true, show: (row) => count(row.abort_count) },
    ],
  });

  // -- which queue, which filter

  const names = h("datalist", { id: "queue-names" });
  const chooser = h("input", { "aria-label": "Queue", placeholder: "All queues", list: "queue-names", value: queue, id: "queue", autocomplete: "off", spellcheck: "false" });
  const filter = h("input", { "aria-label": "Filter", placeholder: 'Words of the label, or priority >= 5 and label ~ "order"', value: where, id: "where", "data-filter": "", autocomplete: "off", spellcheck: "false" });
  const kept = h("select", { "aria-label": "Saved filters", id: "saved", onchange: () => { filter.value = kept.value; apply(); } });
  const drawSaved = () => fill(kept, h("option", { value: "" }, "Saved filters"), saved().map((one) => h("option", { value: one, selected: one === where }, one)));
  /** @param {string[]} list */
  const save = (list) => {
    localStorage.setItem(SAVED, JSON.stringify(list.slice(0, 50)));
    drawSaved();
  };
  drawSaved();
  const apply = () => {
    filter.value = filterOf(filter.value);
    const target = to("messages", chooser.value.trim() ? [named(chooser.value)] : [], { where: filter.value });
    if (target === location.hash) void load();
    else location.hash = target;
  };
  const form = h(
    "form",
    { class: "toolbar", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); apply(); } },
    chooser,
    names,
    filter,
    h("button", { type: "submit", class: "primary" }, "Show"),
    h("button", { type: "button", id: "filter-help", onclick: () => help(filter) }, "Examples"),
    kept,
    h("button", { type: "button", id: "save", onclick: () => filter.value.trim() && save([filter.value.trim(), ...saved().filter((one) => one !== filter.value.trim())]) }, "Save filter"),
    h("button", { type: "button", id: "forget", onclick: () => save(saved().filter((one) => one !== filter.value.trim())) }, "Forget filter"),
  );

  // -- acts

  /** @param {() => unknown} work */
  const guarded = (work) => async () => {
    fill(answer);
    try {
      await work();
    } catch (error) {
      if (!signal.aborted) fill(answer, problem(error));
    }
  };
  const chosen = () => {
    const ids = [...table.marks].map((key) => Number(key.slice(key.lastIndexOf(" ") + 1)));
    return ids.length ? { lookup_ids: ids } : where ? { where } : {};
  };
  // Nothing marked means nothing, until the user has chosen all of them.
  let total = "";
  const all = h("input", { type: "checkbox", id: "all", onchange: () => choose() });
  /** @type {Array<[HTMLButtonElement, string]>} */
  const onMany = [];
  const allText = h("label", { for: "all" });
  function choose() {
    const marks = table.marks.size;
    allText.textContent = where ? "All that match the filter" : total ? `All ${total} messages` : "All messages";
    all.disabled = marks > 0;
    const which = marks ? count(marks) : where ? "all that match" : `all ${total}`.trim();
    for (const [one, text] of onMany) {
      one.disabled = !marks && !all.checked;
      one.textContent = one.disabled ? text : `${text} ${which}`;
    }
  }
  const done = () => {
    all.checked = false;
    table.unmark();
    void load();
  };
  const isTransactional = async () => (await call("show_queue", { queue }, null, { signal })).transactional;
  const button = (/** @type {string} */ text, /** @type {() => unknown} */ work) => h("button", { type: "button", onclick: guarded(work) }, text);
  const manyButton = (/** @type {string} */ text, /** @type {() => unknown} */ work) => {
    const one = button(text, work);
    onMany.push([one, text]);
    return one;
  };
  const acts = queue && [
    may("operate") && button("Send", async () => send(queue, null, await isTransactional(), done)),
    may("operate") && manyButton("Move", () => move({ queue, chosen: chosen(), done })),
    may("operate") && manyButton("Copy", () => copy({ queue, chosen: chosen(), done })),
    may("operate") && manyButton("Send again", () => resend({ queue, chosen: chosen(), done })),
    may("operate") && manyButton("Return to source", () => giveBack({ queue, chosen: chosen(), done })),
    may("operate") && manyButton("Delete", () => remove({ queue, chosen: chosen(), done })),
    may("read") && button("Export", () => exportMessages(queue, chosen(), (text) => { progress.textContent = text; }, signal)),
    may("operate") && button("Import", async () => importMessages(queue, await isTransactional(), done)),
    may("operate") && h("span", { class: "field check" }, all, allText),
    marked,
  ];
  choose();

  // -- the page of messages

  /** @type {AbortController | null} */
  let looking = null;

  async function load() {
    looking?.abort();
    const mine = (looking = new AbortController());
    signal.addEventListener("abort", () => mine.abort());
    const asked = { signal: mine.signal };
    /** @type {Message[]} */
    const found = [];
    let scanned = 0;
    let place = after;
    fill(answer);
    next.hidden = true;
    stop.hidden = false;
    stop.onclick = () => mine.abort();
    try {
      const held = queue ? (await call("show_queue", { queue }, null, asked)).messages : 0;
      total = queue ? count(held) : "";
      choose();
      do {
        const ask = { limit: PAGE - found.length, bodies: false, ...(place ? { after: place } : {}) };
        const some = queue ? await call("list_messages", { queue, ...ask, ...(where ? { where } : {}) }, null, asked) : where ? await call("find_messages", { where, ...ask }, null, asked) : { messages: [], next: null, scanned: 0, skipped: [] };
        found.push(...some.messages);
        if (some.skipped.length) fill(answer, skippedOf(some.skipped));
        scanned += some.scanned;
        place = some.next ?? "";
        table.update(found);
        progress.textContent = `${count(found.length)} shown, ${count(scanned)}${held && where && !after ? ` of ${count(held)}` : ""} looked at`;
      } while (place && found.length < PAGE);
    } catch (error) {
      if (signal.aborted) return;
      if (mine.signal.aborted) progress.textContent += ", stopped";
      else fill(answer, problem(error));
    } finally {
      if (looking === mine) {
        stop.hidden = true;
        next.hidden = !place;
        next.onclick = () => { location.hash = to("messages", queue ? [queue] : [], { where, after: place }); };
      }
    }
  }

  main.append(
    h("div", { class: "heading" }, h("h1", {}, queue ? `Messages of ${queue}` : "Messages"), progress, stop, queue && h("a", { class: "button", href: to("queues", [queue]) }, "Queue")),
    form,
    h("div", { class: "toolbar" }, acts, h("span", { class: "spacer" }), table.chooser()),
    answer,
    h("section", { class: "card" }, table.element),
    h("div", { class: "toolbar" }, after && h("a", { class: "button", href: to("messages", queue ? [queue] : [], { where }) }, "First page"), next),
  );
  void load();
  context.poll(30, async (polled) => {
    const listed = await call("list_queues", { outgoing: session.administrator, system: true }, null, { polled, signal });
    fill(names, listed.queues.map((one) => h("option", { value: nameOf(one) })));
  });
}

const FLAGS = ["authenticated", "encrypted"]; // which a filter may consist of

/** A filter. Words without a comparison are looked for in labels. @param {string} text */
export function filterOf(text) {
  const words = text.trim();
  if (!words || /[=<>~"()]/.test(words) || words.toLowerCase().split(/\s+/).some((one) => FLAGS.includes(one))) return words;
  return `label ~ "${words.replaceAll("\\", "\\\\")}"`;
}

/** @type {Array<[string, string]>} */
const EXAMPLES = [
  ['message_type ~ "OrderPlaced"', "of a message bus; also exception_type, failed_queue"],
  ['label = "order 4711"', "the label, letter by letter"],
  ['label ~ "order"', "a part of the label; so are words without a comparison"],
  ['body_text ~ "needle"', "a part of the body, decoded as it is shown"],
  ["priority >= 5", "also = != < <= >"],
  ['arrived_time >= "2026-01-31T12:00:00Z"', "when it came into the queue"],
  ['class ~ "nack"', "dead letters by reason; the column Class shows the words"],
  ['priority = 7 and not encrypted', "join by and, or, not and brackets"],
  ["abort_count > 2", "how often readers gave it back"],
];

/** What filters look like; one that is pressed goes into the field. @param {HTMLInputElement} filter */
function help(filter) {
  const dialog = showDialog(
    "Examples of filters",
    h(
      "table",
      { class: "plain-table" },
      h("tbody", {}, EXAMPLES.map(([text, words]) => h("tr", {}, h("th", { scope: "row" }, h("button", { type: "button", class: "mono", onclick: () => { filter.value = text; dialog.close(); filter.focus(); } }, text)), h("td", {}, words)))),
    ),
  );
}
