// Job queues: their jobs, servers and status; hold, move and remove jobs.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { acting, actions, button, card, pairs, rows } from "../lib/cards.js";
import { decoded, hex } from "../lib/bytes.js";
import { ask, note, show as showDialog } from "../lib/dialogs.js";
import { h, refresh } from "../lib/dom.js";
import { bytes, count, many, time } from "../lib/format.js";
import { first, held, hold, move, removeJob, stateOf, submit } from "../lib/job_acts.js";
import { showJob } from "./job.js";

/** @typedef {import("../types.js").JobQueueJson} JobQueue */
/** @typedef {"no_new_jobs" | "no_new_servers" | "no_service"} Status */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "jobs", title: "Job queues", role: "look", key: "j", show };

/** @type {Array<[Status, string]>} */
const STATUSES = [
  ["no_new_jobs", "No new jobs"],
  ["no_new_servers", "No new servers"],
  ["no_service", "No job is serviced"],
];

/** The name that the API takes, whatever the type. @param {JobQueue} queue */
const reference = (queue) => `${queue.type}:${queue.name}`;

/** @param {import("../lib/page.js").Context} context */
function show(context) {
  const [queue, number] = context.path;
  if (queue && number) showJob(context, queue, Number(number));
  else if (queue) showQueue(context, queue);
  else showAll(context);
}

/** @param {import("../lib/page.js").Context} context */
function showAll({ main, poll, may, signal }) {
  const { answer, act } = acting();
  const list = h("section", { class: "card", "aria-label": "Job queues" });
  main.append(h("div", { class: "heading" }, h("h1", {}, "Job queues"), may("administer") && button("Create a job queue", act(create), "create-job-queue")), answer, list);
  const now = poll(5, async (polled) => {
    /** @type {JobQueue[]} */
    const found = [];
    for (let after = 0; ; ) {
      const page = await call("list_job_queues", { after }, null, { polled, signal });
      found.push(...page.queues);
      if (page.next === null) break;
      after = page.next;
    }
    refresh(list, found, () =>
      rows(
        ["Job queue", "Type", "#Jobs", "Servers", "Status"],
        found.map((one) => [h("a", { href: to("jobs", [reference(one)]) }, one.name), one.type.replace("_", " "), one.jobs === null ? "" : count(one.jobs), one.servers === null ? "" : one.servers.map((each) => each.name).join(", ") || "none", statusOf(one)]),
        "There is no job queue.",
      ),
    );
  });

  function create() {
    return ask({
      title: "Create a job queue",
      act: "Create",
      fields: [
        { name: "name", label: "Name", required: true, length: 47 },
        { name: "type", label: "Type", kind: "select", options: [["job_queue", "jobs"], ["print_queue", "print jobs"], ["archive_queue", "archive jobs"]], value: "job_queue" },
        { name: "users", label: "Users", value: "group:EVERYONE", hint: "Who may submit jobs, with commas between them." },
        { name: "operators", label: "Operators", value: "SUPERVISOR" },
        { name: "servers", label: "Servers", hint: "Who may service jobs, such as job_server:SPARK1." },
      ],
      run: async (values) => {
        const names = (/** @type {string} */ key) => String(values[key]).split(",").map((one) => one.trim()).filter(Boolean);
        await call("create_job_queue", {}, { name: values["name"], type: values["type"], users: names("users"), operators: names("operators"), servers: names("servers") });
        note(`${values["name"]} is there.`);
        now();
      },
    });
  }
}

/** @param {JobQueue} queue */
function statusOf(queue) {
  if (queue.status === null) return "not to be seen";
  return STATUSES.filter(([name]) => queue.status?.includes(name)).map(([, title]) => title).join(", ") || "open";
}

/** @param {import("../lib/page.js").Context} context  @param {string} name */
function showQueue({ main, poll, may, signal }, name) {
  const { answer, act } = acting();
  const acts = h("div", { class: "toolbar" });
  const about = h("div", {});
  const jobs = h("div", {});
  const ended = h("div", {});
  document.title = `${name} · Job queues`;
  main.append(h("p", {}, h("a", { href: to("jobs") }, "Job queues")), h("div", { class: "heading" }, h("h1", {}, name)), acts, answer, about, jobs, ended);
  const now = poll(3, async (polled) => {
    const asked = { polled, signal };
    const [queue, list, history] = await Promise.all([call("show_job_queue", { queue: name }, null, asked), call("list_jobs", { queue: name }, null, asked), call("list_job_history", { queue: name }, null, asked)]);
    refresh(acts, queue.status, () => [
      may("operate") && button("Submit a job", act(() => submit(name, now)), "submit"),
      may("operate") && button("Status", act(() => setStatus(queue)), "status"),
      may("administer") && button("Delete", act(() => remove(queue)), "delete"),
    ]);
    refresh(about, queue, () =>
      card(
        "Job queue",
        pairs([
          ["Status", statusOf(queue)],
          ["Attached servers", (queue.servers ?? []).length ? actions((queue.servers ?? []).map((one) => button(`${one.name} at station ${one.station}`, act(() => record(one)), `server ${one.id} ${one.station}`))) : "none"],
          ["Listed servers", (queue.listed_servers ?? []).join(", ") || "none"],
          ["Users", (queue.users ?? []).join(", ") || "none"],
          ["Operators", (queue.operators ?? []).join(", ") || "none"],
          ["Submits from", queue.submit_from || "no queue of messages"],
          ["Answers to", queue.response_queue || "no queue of messages"],
        ]),
      ),
    );
    refresh(jobs, list, () =>
      card(
        `Jobs: ${count(list.total)}`,
        rows(
          ["#Place", "#Number", "Description", "Owner", "Submitted", "#Bytes", "State", "Serviced by", "Last failure", ""],
          list.jobs.map((one) => [count(one.position), h("a", { href: to("jobs", [name, String(one.number)]) }, count(one.number)), one.description, one.owner, time(one.entry_time), bytes(one.file_size), stateOf(one), one.server, one.failure, may("operate") && actions(button(held(one) ? "Release" : "Hold", act(() => hold(name, one, now)), `hold ${one.number}`), button("First", act(() => first(name, one, now)), `first ${one.number}`), button("Move", act(() => move(name, one, now)), `move ${one.number}`), button("Remove", act(() => removeJob(name, one, now)), `remove ${one.number}`))]),
          "No job waits.",
        ),
        list.next !== null && h("div", { class: "empty" }, `${many(list.total - list.jobs.length, "job")} more`),
      ),
    );
    refresh(ended, history, () => card("Jobs that have ended", rows(["#Number", "Description", "How", "When"], history.jobs.map((one) => [count(one.number), one.description, one.outcome, time(one.end_time)]), "None has ended.")));
  });

  /** The status record that a server keeps. @param {import("../types.js").AttachedJson} server */
  async function record(server) {
    const found = await call("show_server_status", { queue: name, server: server.id, server_station: server.station });
    showDialog(`Status record of ${server.name}`, h("pre", { class: "mono", id: "server-record" }, hex(decoded(found.record))));
  }

  /** @param {JobQueue} queue */
  function setStatus(queue) {
    return ask({
      title: "Status of the job queue",
      act: "Save",
      fields: STATUSES.map(([key, label]) => ({ name: key, label, kind: "checkbox", value: queue.status?.includes(key) ?? false })),
      run: async (values) => {
        await call("set_job_queue", { queue: name }, { status: STATUSES.map(([key]) => key).filter((key) => values[key]) });
        note("Saved.");
        now();
      },
    });
  }

  /** @param {JobQueue} queue */
  function remove(queue) {
    return ask({
      title: "Delete the job queue",
      text: h("p", {}, h("code", {}, queue.name), " goes, with ", h("strong", {}, many(queue.jobs ?? 0, "job")), " and their files."),
      act: "Delete",
      danger: true,
      run: async () => {
        await call("delete_job_queue", { queue: name });
        note("Deleted.");
        location.hash = to("jobs");
      },
    });
  }
}
