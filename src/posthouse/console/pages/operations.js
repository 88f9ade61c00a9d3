// Operations: work on many messages that the server does by itself; stopped, resumed, forgotten.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { problem } from "../lib/dialogs.js";
import { fill, h } from "../lib/dom.js";
import { breakable, count, time } from "../lib/format.js";
import { Table } from "../lib/table.js";

/** @typedef {import("../types.js").OperationJson} Operation */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "operations", title: "Operations", role: "look", key: "w", show };

/** @type {Record<string, string>} */
const GRADES = { running: "", stopping: "", done: "ok", failed: "bad", stopped: "warn", interrupted: "warn" };

/** @param {Operation} one */
const isRunning = (one) => one.state === "running" || one.state === "stopping";

/** @param {import("../lib/page.js").Context} context */
function show({ main, may, poll, signal }) {
  const answer = h("div", {});
  /** @param {() => Promise<unknown>} work */
  const act = (work) => async () => {
    fill(answer);
    try {
      await work();
      now();
    } catch (error) {
      fill(answer, problem(error));
    }
  };
  /** @param {Operation} one */
  const acts = (one) => {
    const id = { operation: one.id };
    const button = (/** @type {string} */ text, /** @type {() => Promise<unknown>} */ work) => h("button", { type: "button", "data-focus": `${text} ${one.id}`, "aria-label": `${text} operation ${one.id}`, onclick: act(work) }, text);
    return h(
      "span",
      { class: "actions" },
      isRunning(one) && button("Stop", () => call("stop_operation", id)),
      !isRunning(one) && one.state !== "done" && button("Resume", () => call("resume_operation", id)),
      !isRunning(one) && button("Forget", () => call("forget_operation", id)),
    );
  };
  /** @type {Table<Operation>} */
  const table = new Table({
    name: "operations",
    label: "Operations",
    key: (row) => String(row.id),
    empty: "No work on many messages was begun. It begins on the page Messages.",
    columns: [
      { name: "id", title: "Number", number: true, fixed: true, show: (row) => row.id, sort: (row) => row.id },
      { name: "act", title: "Act", show: (row) => [row.act, row.dry_run && h("span", { class: "badge quiet" }, "dry run")], sort: (row) => row.act },
      { name: "queue", title: "Queue", show: (row) => h("a", { href: to("messages", [row.queue]), "data-focus": `queue ${row.id}` }, breakable(row.queue)), sort: (row) => row.queue },
      { name: "where", title: "Which", show: (row) => row.where || (row.group ? `group ${row.group}` : row.lookup_ids ? `${count(row.lookup_ids)} by lookup id` : "all") },
      { name: "to", title: "To", show: (row) => breakable(row.to), sort: (row) => row.to },
      { name: "state", title: "State", show: (row) => [h("span", { class: `badge ${GRADES[row.state] ?? ""}` }, row.state), row.error && h("p", { class: "hint" }, row.error)], sort: (row) => row.state },
      { name: "progress", title: "Looked at", number: true, optional: true, show: (row) => `${count(row.scanned)} of ${count(row.total)}` },
      { name: "done", title: "Done", number: true, show: (row) => [count(row.dry_run ? row.matched : row.done), isRunning(row) && h("p", { class: "hint" }, `${count(row.scanned)} of ${count(row.total)} looked at`), row.refused > 0 && h("p", {}, h("span", { class: "badge warn" }, `${count(row.refused)} refused`))], sort: (row) => row.done },
      { name: "user", title: "User", optional: true, show: (row) => row.user, sort: (row) => row.user },
      { name: "begun", title: "Begun", show: (row) => time(row.begun_time), sort: (row) => row.begun_time },
      ...(may("operate") ? [{ name: "acts", title: "Acts", fixed: true, show: acts }] : []),
    ],
  });
  main.append(h("div", { class: "heading" }, h("h1", {}, "Operations"), table.chooser()), answer, h("section", { class: "card" }, table.element));
  const now = poll(2, async (polled) => table.update((await call("list_operations", {}, null, { polled, signal })).operations));
}
