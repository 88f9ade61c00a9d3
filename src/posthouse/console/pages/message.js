// One message: what is in it, where it is and was, and what is done with it.

import { to } from "../lib/address.js";
import { ApiError, call } from "../lib/api.js";
import { decoded, hex } from "../lib/bytes.js";
import { classOf } from "../lib/classes.js";
import { problem } from "../lib/dialogs.js";
import { fill, h } from "../lib/dom.js";
import { bytes, count, time } from "../lib/format.js";
import { lifeOf } from "../lib/life.js";
import { copy, exportMessages, giveBack, move, remove, resend, send } from "../lib/message_acts.js";

/** @typedef {import("../types.js").MessageJson} Message */
/** @typedef {import("../lib/dom.js").Child} Child */

/**
 * @param {import("../lib/page.js").Context} context
 * @param {string} queue
 * @param {number} lookup_id
 */
export function showMessage({ main, may, signal }, queue, lookup_id) {
  document.title = `Message ${lookup_id} · ${queue}`;
  const answer = h("div", {});
  const content = h("div", { class: "split two" });
  const acts = h("div", { class: "toolbar" });
  main.append(h("p", {}, h("a", { href: to("messages", [queue]) }, `Messages of ${queue}`), " · ", h("a", { href: to("queues", [queue]) }, "Queue")), h("div", { class: "heading" }, h("h1", {}, `Message ${lookup_id}`)), acts, answer, content);
  const back = () => { location.hash = to("messages", [queue]); };

  /** @param {() => unknown} work */
  const guarded = (work) => async () => {
    fill(answer);
    try {
      await work();
    } catch (error) {
      if (!signal.aborted) fill(answer, problem(error));
    }
  };
  const button = (/** @type {string} */ text, /** @type {() => unknown} */ work) => h("button", { type: "button", onclick: guarded(work) }, text);

  void guarded(async () => {
    const message = await call("show_message", { queue, lookup_id, decode: may("read") }, null, { signal });
    const chosen = { lookup_ids: [lookup_id] };
    fill(
      acts,
      may("operate") && button("Edit and send again", async () => send(queue, message, (await call("show_queue", { queue })).transactional, () => {})),
      may("operate") && button("Move", () => move({ queue, chosen, done: back })),
      may("operate") && button("Copy", () => copy({ queue, chosen, done: () => {} })),
      may("operate") && button("Send again", () => resend({ queue, chosen, done: back })),
      may("operate") && button("Return to source", () => giveBack({ queue, chosen, done: back })),
      may("operate") && button("Delete", () => remove({ queue, chosen, done: back })),
      may("read") && button("Export", () => exportMessages(queue, chosen, () => {}, signal)),
    );
    const life = h("section", { class: "card", "aria-label": "Life" }, h("header", {}, h("h2", {}, "Life")), h("div", { class: "empty" }, "Asking…"));
    fill(content, h("div", { class: "split" }, bodyCard(message)), h("div", { class: "split" }, life, properties(message)));
    try {
      const known = await call("explain_message", { id: message.id }, null, { signal });
      fill(life, h("header", {}, h("h2", {}, "Life"), h("a", { href: to("life", [message.id], { peers: "yes" }) }, "Ask other queue managers")), lifeOf(known));
    } catch (error) {
      if (error instanceof ApiError) fill(life, h("header", {}, h("h2", {}, "Life")), problem(error));
    }
  })();
}

/** @param {Message} message */
function bodyCard(message) {
  if (message.body === null) return card("Body", h("div", { class: "empty" }, `${bytes(message.body_size)}. Your role does not show the content of messages.`));
  if (!message.body_size && !message.extension) return card("Body", h("div", { class: "empty" }, "The body is empty."));
  const raw = decoded(message.body);
  const found = /** @type {{format?: string, text?: unknown, value?: unknown, headers?: unknown, error?: string} | undefined} */ (message.decoded);
  /** @type {Array<[string, () => Child]>} */
  const views = [];
  if (found?.format) {
    views.push([
      `Decoded (${found.format})`,
      () => [
        found.error && h("p", { class: "notice warn" }, found.error),
        h("pre", { class: "body-text", tabindex: "0" }, typeof found.text === "string" ? found.text : JSON.stringify(found.value ?? found, null, 2)),
      ],
    ]);
    if (found.headers) views.push(["Headers", () => headerTable(found.headers)]);
  }
  if (message.body_text !== null) views.push(["Text", () => h("pre", { class: "body-text", tabindex: "0" }, message.body_text)]);
  views.push(["Hex", () => h("pre", { class: "body-text hex", tabindex: "0" }, hex(raw))]);
  if (message.extension) views.push(["Extension", () => h("pre", { class: "body-text hex", tabindex: "0" }, hex(decoded(message.extension ?? "")))]);
  return card("Body", [tabs(views)], h("span", { class: "muted" }, `${bytes(message.body_size)}, type ${message.body_type}`));
}

/** @param {unknown} headers */
function headerTable(headers) {
  const entries = Array.isArray(headers) ? headers.map((one) => (Array.isArray(one) ? one : [one?.key ?? one?.name, one?.value])) : Object.entries(/** @type {object} */ (headers));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Headers" }, h("table", {}, h("tbody", {}, entries.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, String(name)), h("td", { class: "mono" }, typeof value === "string" ? value : JSON.stringify(value)))))));
}

/** @param {Array<[string, () => Child]>} views */
function tabs(views) {
  const panel = h("div", { class: "body", role: "tabpanel", "aria-label": "Body" });
  /** @type {HTMLButtonElement[]} */
  const buttons = views.map(([title], place) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        onclick: () => choose(place),
        onkeydown: (/** @type {KeyboardEvent} */ event) => {
          const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (step) choose((place + step + views.length) % views.length, true);
        },
      },
      title,
    ),
  );
  /** @param {number} place  @param {boolean} [focus] */
  function choose(place, focus = false) {
    buttons.forEach((one, number) => {
      one.setAttribute("aria-selected", String(number === place));
      one.tabIndex = number === place ? 0 : -1;
    });
    if (focus) buttons[place]?.focus();
    fill(panel, views[place]?.[1]());
  }
  choose(0);
  return [h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the body" }, buttons), panel];
}

/** @param {string} title  @param {Child} content  @param {Child} [more] */
function card(title, content, more) {
  return h("section", { class: "card", "aria-label": title }, h("header", {}, h("h2", {}, title), more), content);
}

/** @param {Message} message */
function properties(message) {
  /** @type {Array<[string, Child]>} */
  const pairs = [
    ["Label", message.label],
    ["Identifier", h("span", { class: "mono" }, message.id)],
    ["Class", classOf(message.class)],
    ["Sent", time(message.sent_time)],
    ["Arrived", time(message.arrived_time)],
    ["Delivery", message.delivery],
    ["Priority", message.priority],
    ["Sender", message.sender],
    ["Destination", message.destination],
    ["From the queue manager", h("span", { class: "mono" }, message.source_queue_manager)],
    ["Response queue", message.response_queue],
    ["Administration queue", message.admin_queue],
    ["Acknowledgments", message.acknowledge.join(", ")],
    ["Journal", message.journal.join(", ")],
    ["Correlation id", /^0*$/.test(message.correlation_id) ? "" : h("span", { class: "mono" }, message.correlation_id)],
    ["Application's number", message.app_specific],
    ["Time to be received", message.time_to_be_received === null ? "no limit" : `${count(message.time_to_be_received)} s`],
    ["Signed", message.authenticated ? "yes" : "no"],
    ["Encrypted", message.encrypted ? "yes" : "no"],
    ["Aborts", count(message.abort_count)],
    ["Moves", count(message.move_count)],
    ["Trace", message.trace],
    ["Connector type", message.connector_type],
    ["Transaction", message.transaction ? `${message.transaction.id}${message.transaction.first ? ", first" : ""}${message.transaction.last ? ", last" : ""}` : ""],
  ];
  return card("Properties", h("div", { class: "body" }, h("dl", { class: "pairs" }, pairs.filter(([, value]) => value !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))));
}
