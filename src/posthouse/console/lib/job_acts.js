// What is done with jobs: submit, hold, place, move, remove. Those that cannot be undone ask first.

import { ApiError, call } from "./api.js";
import { contentOf, encoded } from "./bytes.js";
import { ask, note } from "./dialogs.js";
import { h } from "./dom.js";

/** @typedef {import("../types.js").JobJson} Job */

/** @param {Job} job */
export function held(job) {
  return job.flags.includes("operator_hold") || job.flags.includes("user_hold");
}

/** @param {Job} job */
export function stateOf(job) {
  if (job.server) return job.progress ? `in service, ${job.progress.done} of ${job.progress.total}` : "in service";
  if (held(job)) return h("span", { class: "badge warn" }, "held");
  if (job.flags.includes("entry_open")) return "is being written";
  return job.failure ? h("span", { class: "badge bad" }, "failed, waits") : "waits";
}

/** @param {string} queue  @param {() => void} done */
export function submit(queue, done) {
  return ask({
    title: "Submit a job",
    text: h("p", {}, "To ", h("code", {}, queue), ", with its file: one from this machine, or the text below."),
    act: "Submit",
    fields: [
      { name: "description", label: "Description", length: 49 },
      { name: "file", label: "File", kind: "file" },
      { name: "content", label: "Or text", kind: "textarea" },
      { name: "type", label: "Type of the job", kind: "number", min: 0, max: 65535, value: 0, hint: "Servers may take some types only." },
      { name: "target_server", label: "Only for the server", hint: "Empty: any." },
      { name: "user_hold", label: "Hold it", kind: "checkbox" },
      { name: "response_queue", label: "Tell this queue how it ended", hint: "Empty: none." },
    ],
    run: async (values) => {
      const { file, content, ...body } = values;
      const made = await call("submit_job", { queue }, { ...body, file: file ? await contentOf(file) : encoded(new TextEncoder().encode(content)) });
      note(`It is job ${made.number}.`);
      done();
    },
  });
}

/** @param {string} queue  @param {Job} job  @param {() => void} done */
export async function hold(queue, job, done) {
  const changed = await call("change_job", { queue, number: job.number }, { operator_hold: !held(job), ...(held(job) ? { user_hold: false } : {}) });
  // NetWare leaves out, without a word, what only operators may change.
  if (held(changed) === held(job)) throw new ApiError(0, "", "only operators of this job queue hold and release jobs of others", "An administrator makes you one: posthouse job queue allow.");
  done();
}

/** @param {string} queue  @param {Job} job  @param {() => void} done */
export async function first(queue, job, done) {
  await call("place_job", { queue, number: job.number }, { position: 1 });
  done();
}

/** @param {string} queue  @param {Job} job  @param {(queue: string, number: number) => void} done */
export function move(queue, job, done) {
  return ask({
    title: "Move the job",
    text: h("p", {}, "Job ", String(job.number), " ", h("code", {}, job.description), " goes to the end of another job queue, where it gets another number."),
    act: "Move",
    fields: [{ name: "to", label: "To the job queue", required: true }],
    run: async (values) => {
      const moved = await call("move_job", { queue, number: job.number }, { to: values["to"] });
      note(`It is job ${moved.number} there.`);
      done(values["to"], moved.number);
    },
  });
}

/** @param {string} queue  @param {Job} job  @param {() => void} done */
export function removeJob(queue, job, done) {
  return ask({
    title: "Remove the job",
    text: h("p", {}, "Job ", String(job.number), " ", h("code", {}, job.description), " goes, with its file."),
    act: "Remove",
    danger: true,
    run: async () => {
      await call("remove_job", { queue, number: job.number });
      note("Removed.");
      done();
    },
  });
}
