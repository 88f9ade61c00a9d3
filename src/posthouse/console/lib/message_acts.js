// What is done with messages. Acts on many are operations of the server: a dry run first, then the act.

import { ApiError, call } from "./api.js";
import { decoded, download, drawn } from "./bytes.js";
import { ask, note, problem } from "./dialogs.js";
import { h } from "./dom.js";
import { count, many } from "./format.js";
import { named as queueNamed } from "./queues.js";

/** @typedef {import("../types.js").MessageJson} Message */
/** @typedef {import("../types.js").OperationJson} Operation */
/** @typedef {{where?: string, lookup_ids?: number[], group?: string}} Selection  which messages */
/** @typedef {import("./dom.js").Child} Child */

const EXPORT_MAX = 100_000;
const IMPORT_MAX = 64 << 20; // bytes

/** @param {Operation} result */
function outcome(result) {
  const lines = result.dry_run ? [`Preview: ${many(result.matched, "message")} would be taken. Nothing has changed yet.`] : [`${many(result.done, "message")} done.`];
  if (result.state === "stopped" || result.state === "interrupted") lines.push(`It was ${result.state}. Under Operations it goes on.`);
  if (result.gone) lines.push(`${many(result.gone, "message")} taken by others meanwhile.`);
  if (result.refused) lines.push(`${many(result.refused, "message")} refused${result.dry_run ? " as it stands" : ""}.`);
  if (result.error) lines.push(result.error);
  return h("div", { class: `notice ${result.refused || result.error || result.state !== "done" ? "warn" : "ok"}`, role: "status" }, lines.map((line) => h("p", {}, line)));
}

/**
 * Has the server do it, and follows it to its end. Closing the dialog does not stop it. Where an
 * answer is lost, the next try follows the operation that the key has.
 * @param {import("../types.js").OperationBody & {key: string}} body
 * @param {(shown: Child) => void} progress
 * @returns {Promise<Operation>}
 */
async function operate(body, progress) {
  let operation = await call("begin_operation", {}, body, { once: true });
  const id = { operation: operation.id };
  const bar = h("progress", { "aria-label": "Progress" });
  const text = h("p", { role: "status" });
  const stop = h("button", { type: "button", onclick: () => call("stop_operation", id).catch((error) => shown(problem(error))) }, "Stop");
  /** @param {Child} trouble */
  const shown = (trouble) => progress([bar, text, !body.dry_run && stop, trouble]);
  shown(null);
  while (operation.state === "running" || operation.state === "stopping") {
    if (operation.total) bar.value = Math.min(operation.scanned / operation.total, 1);
    text.textContent = `${count(operation.scanned)} of ${count(operation.total)} looked at, ${count(body.dry_run ? operation.matched : operation.done)} ${body.dry_run ? "match" : "done"}`;
    await new Promise((resolve) => setTimeout(resolve, 300));
    try {
      operation = await call("show_operation", id, null, { polled: true });
      shown(null);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status || !bar.isConnected) throw error;
      shown(problem(error)); // and it is asked again
    }
  }
  if (body.dry_run) await call("forget_operation", id);
  return operation;
}

/**
 * @param {object} options
 * @param {string} options.title
 * @param {string} options.act
 * @param {Operation["act"] & ("move" | "copy" | "delete" | "resend" | "return")} options.word
 * @param {Act} options.on
 * @param {import("./dialogs.js").Field[]} [options.fields]
 * @param {boolean} [options.danger]
 * @param {string} [options.text]
 */
function bulk({ title, act, word, on: { queue, chosen, named, done }, fields = [], danger = false, text }) {
  const which = chosen.lookup_ids ? many(chosen.lookup_ids.length, "marked message") : chosen.group ? `All messages of the group ${named ?? chosen.group}` : chosen.where ? `All messages that match ${chosen.where}` : "All messages";
  let wanted = "";
  let keys = { dry: "", real: "" };
  return ask({
    title,
    text: [h("p", {}, which, " of ", h("code", {}, queue)), text && h("p", { class: "hint" }, text), h("p", { class: "hint" }, "The preview counts them and changes nothing. You confirm after it.")],
    act: "Preview",
    fields,
    run: async (values, progress, confirmed) => {
      const asked = JSON.stringify(values);
      const body = { act: word, queue, ...chosen, to: queueNamed(values["to"] ?? "") || null };
      if (wanted !== asked) [wanted, keys] = [asked, { dry: drawn(), real: drawn() }];
      if (!confirmed) {
        const found = await operate({ ...body, key: keys.dry, dry_run: true }, progress);
        keys.dry = drawn(); // this preview has its answer: the next one is another
        if (!found.matched) return { again: "Preview again", shown: outcome(found), nothing: true };
        return { again: `${act} ${many(found.matched, "message")}`, shown: outcome(found), danger };
      }
      const result = await operate({ ...body, key: keys.real }, progress);
      done();
      return outcome(result);
    },
  });
}

/** @type {import("./dialogs.js").Field} */
const TO = { name: "to", label: "To the queue", required: true, hint: "orders (private), a path name or a format name." };

/** @typedef {{queue: string, chosen: Selection, named?: string, done: () => void}} Act  `named`: what a group is called */

/** @param {Act} on */
export const move = (on) => bulk({ title: "Move messages", act: "Move", word: "move", on, fields: [TO], text: "They stay the same messages, on this machine." });

/** @param {Act} on */
export const copy = (on) => bulk({ title: "Copy messages", act: "Copy", word: "copy", on, fields: [TO], text: "The copies are new messages, to any machine." });

/** @param {Act} on */
export const remove = (on) => bulk({ title: "Delete messages", act: "Delete", word: "delete", on, danger: true });

/** @param {Act} on */
export const resend = (on) =>
  bulk({ title: "Send again", act: "Send again", word: "resend", on, fields: [{ ...TO, required: false, hint: "Empty: where each message was sent to at first." }], text: "They are sent as new messages and leave this queue." });

/** @param {Act} on */
export const giveBack = (on) => bulk({ title: "Return to the source", act: "Return", word: "return", on, text: "Each goes back to the queue in which it failed." });

/** @type {Array<[string, string]>} */
const FORMATTERS = [
  ["", "as it is"],
  ["xml", "XmlMessageFormatter: a value, or a class from JSON"],
  ["activex", "ActiveXMessageFormatter: a value"],
  ["json", "JSON, checked"],
  ["text", "text in UTF-8, checked"],
];

/** @type {import("./dialogs.js").Field[]} */
const WRITTEN = [
  { name: "formatter", label: "Body is written", kind: "select", options: FORMATTERS, value: "" },
  { name: "type", label: "Type of the value", when: ["formatter", ["xml", "activex"]], hint: "For a value: string, int, dateTime, guid, ... Empty: string." },
  { name: "root", label: "Class", when: ["formatter", ["xml"]], hint: "For XML from JSON: the name of the class or list, such as Order or ArrayOfInt." },
  { name: "namespace", label: "Namespace of the class", when: ["formatter", ["xml"]], hint: "Empty: none." },
];

/** @type {Array<[string, string]>} */
const DELIVERY = [
  ["express", "express: in memory"],
  ["recoverable", "recoverable: on disk before the answer"],
  ["transactional", "transactional: in a transaction of its own"],
];

/**
 * Sends a message; with `like`, one that was there before, to be edited.
 * @param {string} queue
 * @param {Message | null} like
 * @param {boolean} transactional
 * @param {() => void} done
 */
export function send(queue, like, transactional, done) {
  const isText = !like || like.body_text !== null;
  const series = drawn();
  let [number, wanted] = [0, ""];
  return ask({
    title: like ? "Edit and send again" : "Send a message",
    ...(like ? { text: h("p", { class: "hint" }, "This is sent as a new message, with the headers of the old one. The old one stays in its queue.") } : {}),
    act: "Send",
    wide: true,
    fields: [
      { name: "queue", label: "To the queue", required: true, value: queue },
      { name: "label", label: "Label", value: like?.label ?? "", length: 249 },
      isText ? { name: "body_text", label: "Body", kind: "textarea", value: like?.body_text ?? "" } : { name: "body", label: "Body in base64", kind: "textarea", value: like?.body ?? "" },
      ...(isText ? WRITTEN : []),
      { name: "delivery", label: "Delivery", kind: "select", options: DELIVERY, value: transactional ? "transactional" : like?.delivery ?? "recoverable" },
      { name: "priority", label: "Priority", kind: "number", min: 0, max: 7, value: like?.priority ?? 3 },
      { name: "body_type", label: "Body type", kind: "number", min: 0, value: like?.body_type ?? 0, hint: "0: none, 8: Unicode text, 30: ANSI text." },
      { name: "app_specific", label: "Application's number", kind: "number", min: 0, value: like?.app_specific ?? 0 },
      { name: "correlation_id", label: "Correlation id", value: like?.correlation_id ?? "", hint: "40 hexadecimal digits, or empty." },
      { name: "response_queue", label: "Response queue", value: like?.response_queue ?? "" },
      { name: "admin_queue", label: "Administration queue", value: like?.admin_queue ?? "" },
    ],
    run: async (values) => {
      const { queue: to, formatter, type, root, namespace, ...body } = values;
      if (wanted !== JSON.stringify(values)) [number, wanted] = [number + 1, JSON.stringify(values)];
      const message = { ...body, once: { series, number }, ...(formatter ? { formatter: { formatter, type, root, namespace }, body_type: 0 } : {}), ...(like?.extension ? { extension: like.extension } : {}) };
      const sent = await call("send_message", { queue: queueNamed(to) }, /** @type {any} */ (message), { once: true });
      note(`Sent as ${sent.id}.`);
      done();
    },
  });
}

/**
 * Writes messages into a file, one a line, as `posthouse message export` does.
 * @param {string} queue
 * @param {Selection} chosen
 * @param {(text: string) => void} progress
 * @param {AbortSignal} signal
 */
export async function exportMessages(queue, chosen, progress, signal) {
  /** @type {string[]} */
  const lines = [];
  if (chosen.lookup_ids) {
    for (const lookup_id of chosen.lookup_ids) lines.push(`${JSON.stringify(await call("show_message", { queue, lookup_id }, null, { signal }))}\n`);
  } else {
    /** @type {string | null} */
    let after = null;
    do {
      /** @type {import("../types.js").MessagePageJson} */
      const page = await call("list_messages", { queue, limit: 200, ...(chosen.where ? { where: chosen.where } : {}), ...(after ? { after } : {}) }, null, { signal });
      for (const one of page.messages) lines.push(`${JSON.stringify(one)}\n`);
      progress(`${many(lines.length, "message")} so far`);
      after = page.next;
      if (lines.length > EXPORT_MAX) throw new ApiError(0, "", `a browser writes at most ${count(EXPORT_MAX)} messages`, "Use posthouse message export.");
    } while (after);
  }
  download(`${queue.slice(queue.lastIndexOf("\\") + 1)}.jsonl`, lines, "application/x-ndjson");
  note(`${many(lines.length, "message")} written.`);
}

const KEPT = ["label", "body", "body_type", "priority", "correlation_id", "app_specific", "response_queue", "admin_queue", "acknowledge", "journal", "extension", "time_to_be_received"];

/**
 * Sends the lines of a file. Where that ends early, the next try goes on with the line that was not
 * acknowledged, under the same number: what the server has of it is not sent twice.
 * @param {string} queue
 * @param {boolean} transactional
 * @param {() => void} done
 */
export function importMessages(queue, transactional, done) {
  const file = h("input", { type: "file", id: "import-file", accept: ".jsonl,.ndjson,.json" });
  let [text, series, sent] = ["", "", 0];
  return ask({
    title: "Import messages",
    act: "Import",
    text: [h("p", {}, "Each line of the file is sent to ", h("code", {}, queue), " as a new message."), h("div", { class: "field" }, h("label", { for: "import-file" }, "File of an export"), file)],
    run: async () => {
      const chosen = file.files?.[0];
      if (!chosen) throw new ApiError(0, "", "no file is chosen", "Choose a file that an export wrote.");
      if (chosen.size > IMPORT_MAX) throw new ApiError(0, "", "the file is larger than 64 MiB", "Use posthouse message import.");
      const content = await chosen.text();
      if (content !== text) [text, series, sent] = [content, drawn(), 0];
      const lines = content.split("\n").filter((line) => line.trim());
      const bodies = lines.map((line, place) => sendable(line, place + 1, transactional));
      try {
        for (const body of bodies.slice(sent)) {
          await call("send_message", { queue }, { ...body, once: { series, number: sent + 1 } }, { once: true });
          sent += 1;
        }
      } catch (error) {
        const why = error instanceof ApiError ? error : new ApiError(0, "", String(error), "");
        throw new ApiError(why.status, why.code, `line ${sent + 1}: ${why.reason}; ${many(sent, "message")} sent before it`, `${why.remedy} The next try goes on with this line.`);
      } finally {
        done();
      }
      return h("p", { class: "notice ok" }, `${many(sent, "message")} sent.`);
    },
  });
}

/**
 * What a line of an export says of a message that can be sent.
 * @param {string} line
 * @param {number} number
 * @param {boolean} transactional
 * @returns {import("../types.js").SendBody}
 */
function sendable(line, number, transactional) {
  let value;
  try {
    value = JSON.parse(line);
    if (typeof value !== "object" || value === null || typeof value.body !== "string") throw new TypeError("no body");
    decoded(value.body);
  } catch {
    throw new ApiError(0, "", `line ${number} of the file is not a message of an export`, "Nothing was sent.");
  }
  const kept = Object.fromEntries(KEPT.filter((name) => value[name] !== null && value[name] !== undefined).map((name) => [name, value[name]]));
  return { ...kept, delivery: transactional ? "transactional" : value.delivery === "express" ? "express" : "recoverable" };
}
