// What is done with queues: create, set, grant, purge, pause, delete. Each asks before it acts.

import { ApiError, call } from "./api.js";
import { ask, note } from "./dialogs.js";
import { h } from "./dom.js";
import { many } from "./format.js";
import { isPaused, nameOf, named } from "./queues.js";

/** @typedef {import("../types.js").QueueJson} Queue */
/** @typedef {import("./dialogs.js").Field} Field */
/** @typedef {import("../types.js").GrantBody["rights"]} Rights */

const RIGHTS = ["full", "receive", "peek", "purge", "send", "properties", "get-properties", "set-properties", "journal", "delete", "get-permissions", "change-permissions", "take-ownership"];
/** @type {Array<[string, string]>} */
const PRIVACY = [
  ["optional", "optional: encrypted or not"],
  ["none", "none: only what is not encrypted"],
  ["body", "body: only encrypted messages"],
];

/** @param {Queue | null} queue  @returns {Field[]} */
function properties(queue) {
  /** @type {Field[]} */
  const poison = [
    { name: "max_aborts", label: "Aborts before a message counts as poison", kind: "number", min: 0, value: queue?.max_aborts ?? 0, hint: "Of transactional queues. 0: never." },
    { name: "retry_delays_s", label: "Seconds until a message is tried again", value: (queue?.retry_delays_s ?? []).join(", "), hint: "After its first, second, ... abort, with commas between them; the last goes for all that follow. Empty: at once." },
    { name: "poison_queue", label: "Poison queue", value: queue?.poison_queue ?? "", hint: "A subqueue such as ;failed, or a transactional queue here. Empty: the subqueue ;poison." },
  ];
  return [
    { name: "label", label: "Label", value: queue?.label ?? "", length: 124 },
    { name: "journal", label: "Keep received messages in the journal", kind: "checkbox", value: queue?.journal ?? false },
    { name: "authenticated", label: "Only signed messages", kind: "checkbox", value: queue?.authenticated ?? false },
    { name: "privacy", label: "Privacy", kind: "select", options: PRIVACY, value: queue?.privacy ?? "optional" },
    { name: "quota_kib", label: "Quota in KiB", kind: "number", min: 0, value: queue?.quota_kib ?? null, hint: "Empty: no limit." },
    { name: "journal_quota_kib", label: "Quota of the journal in KiB", kind: "number", min: 0, value: queue?.journal_quota_kib ?? null, hint: "Empty: no limit." },
    { name: "base_priority", label: "Base priority", kind: "number", min: -32768, max: 32767, value: queue?.base_priority ?? 0 },
    ...(queue?.transactional === false ? [] : poison),
  ];
}

/** What the fields state, as the API takes it. @param {import("./dialogs.js").Values} values */
function given(values) {
  if (values["retry_delays_s"] === undefined) return values;
  const delays = String(values["retry_delays_s"]).split(/[\s,;]+/).filter(Boolean).map(Number);
  if (delays.some((one) => !Number.isInteger(one))) throw new ApiError(0, "", "the times of retries are not whole numbers", "Write seconds with commas between them, such as 1, 10, 60.");
  return { ...values, retry_delays_s: delays };
}

/** @param {() => void} done */
export function createQueue(done) {
  return ask({
    title: "Create a queue",
    act: "Create",
    fields: [
      { name: "path", label: "Name", required: true, hint: "orders, .\\private$\\orders or .\\orders (public)" },
      { name: "transactional", label: "Transactional (cannot be changed later)", kind: "checkbox" },
      ...properties(null),
    ],
    run: async (values) => {
      const path = named(values["path"]);
      const made = await call("create_queue", {}, { .../** @type {any} */ (given(values)), path });
      note(`${made.path} is there.`);
      done();
    },
  });
}

/** @param {Queue} queue  @param {() => void} done */
export function setQueue(queue, done) {
  return ask({
    title: "Properties",
    text: nameOf(queue),
    act: "Save",
    fields: properties(queue),
    run: async (values) => {
      const before = /** @type {Record<string, unknown>} */ (/** @type {unknown} */ (queue));
      const changed = Object.fromEntries(Object.entries(given(values)).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])));
      await call("set_queue", { queue: nameOf(queue) }, /** @type {any} */ (changed));
      note("Saved.");
      done();
    },
  });
}

/** @param {string} path  @param {boolean} denied  @param {() => void} done */
export function grant(path, denied, done) {
  return ask({
    title: denied ? "Deny rights" : "Grant rights",
    text: path,
    act: denied ? "Deny" : "Grant",
    danger: denied,
    fields: [
      { name: "who", label: "Who", required: true, hint: "A user, users, everyone, anonymous, administrators or a SID." },
      { name: "rights", label: "Right", kind: "select", options: RIGHTS, value: "send" },
    ],
    run: async (values) => {
      const body = { who: values["who"], rights: /** @type {Rights} */ ([values["rights"]]) };
      if (denied) await call("deny", { queue: path }, body);
      else await call("grant", { queue: path }, body);
      note(denied ? "Denied." : "Granted.");
      done();
    },
  });
}

/** @param {string} path  @param {string} who  @param {() => void} done */
export function revoke(path, who, done) {
  return ask({
    title: "Remove entries",
    text: `All entries of ${who} in the access list of ${path} go.`,
    act: "Remove",
    danger: true,
    run: async () => {
      await call("revoke", { queue: path }, { who });
      note("Removed.");
      done();
    },
  });
}

/** @param {string} path  @param {() => void} done */
export async function purge(path, done) {
  const { messages } = await call("purge_queue", { queue: path, dry_run: true });
  return ask({
    title: "Purge the queue",
    text: h("p", {}, h("strong", {}, many(messages, "message")), " of ", h("code", {}, path), " will be removed. This cannot be undone."),
    act: `Remove ${many(messages, "message")}`,
    danger: true,
    run: async () => {
      const gone = await call("purge_queue", { queue: path });
      note(`${many(gone.messages, "message")} removed.`);
      done();
    },
  });
}

/** @param {string} path  @param {() => void} done */
export async function deleteQueue(path, done) {
  const { messages } = await call("delete_queue", { queue: path, dry_run: true });
  return ask({
    title: "Delete the queue",
    text: h("p", {}, h("code", {}, path), " goes with its journal, its subqueues and ", h("strong", {}, many(messages, "message")), ". This cannot be undone. Write its name to confirm."),
    act: "Delete",
    danger: true,
    fields: [{ name: "name", label: "Name of the queue", required: true }],
    run: async (values) => {
      const own = path.slice(path.lastIndexOf("\\") + 1);
      if (![path, own].includes(values["name"].trim())) throw new ApiError(0, "", "that is another name; nothing was deleted", "Write the name of this queue.");
      await call("delete_queue", { queue: path });
      note(`${path} is deleted.`);
      done();
    },
  });
}

/** @param {Queue} queue  @param {() => void} done */
export async function pauseOrResume(queue, done) {
  if (isPaused(queue)) await call("resume_queue", { queue: nameOf(queue) });
  else await call("pause_queue", { queue: nameOf(queue) });
  done();
}

/** @param {string} path  @param {() => void} done */
export async function retry(path, done) {
  await call("retry_queue", { queue: path });
  note("It tries to connect now.");
  done();
}

/** @param {string} path  @param {() => void} done */
export async function resetSequences(path, done) {
  const found = await call("reset_sequence", { queue: path, dry_run: true });
  return ask({
    title: "Reset sequences",
    text: h("p", {}, many(found.sequences, "sequence"), " of ", h("code", {}, path), " will begin again, with ", many(found.messages, "message"), ". Messages that the other side has received already may arrive there twice."),
    act: "Reset",
    danger: true,
    run: async () => {
      await call("reset_sequence", { queue: path });
      note("The sequences begin again.");
      done();
    },
  });
}
