// One job: what it is, who services it, its client record, and its acts.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { acting, button, card, pairs } from "../lib/cards.js";
import { decoded, hex } from "../lib/bytes.js";
import { h, refresh } from "../lib/dom.js";
import { bytes, count, time } from "../lib/format.js";
import { first, held, hold, move, removeJob, stateOf } from "../lib/job_acts.js";

/** @param {import("../lib/page.js").Context} context  @param {string} queue  @param {number} number */
export function showJob({ main, poll, may, signal }, queue, number) {
  const { answer, act } = acting();
  const acts = h("div", { class: "toolbar" });
  const about = h("div", { class: "stack" });
  const back = () => { location.hash = to("jobs", [queue]); };
  document.title = `Job ${number} · ${queue}`;
  main.append(h("p", {}, h("a", { href: to("jobs", [queue]) }, queue)), h("div", { class: "heading" }, h("h1", {}, `Job ${number}`)), acts, answer, about);
  const now = poll(3, async (polled) => {
    const job = await call("show_job", { queue, number }, null, { polled, signal });
    refresh(acts, [held(job), job.flags], () =>
      may("operate") && [
        button(held(job) ? "Release" : "Hold", act(() => hold(queue, job, now)), "hold"),
        button("First", act(() => first(queue, job, now)), "first"),
        button("Move", act(() => move(queue, job, (there, its) => { location.hash = to("jobs", [there, String(its)]); })), "move"),
        button("Remove", act(() => removeJob(queue, job, back)), "remove"),
      ],
    );
    refresh(about, job, () => [
      card(
        "Job",
        pairs([
          ["Description", job.description || "none"],
          ["State", stateOf(job)],
          ["Place", count(job.position)],
          ["Owner", `${job.owner} at station ${job.station}`],
          ["Submitted", time(job.entry_time)],
          ["Type", count(job.type)],
          ["For the server", job.target_server || "any"],
          ["Not before", time(job.target_time) || "at once"],
          ["Serviced by", job.server ? `${job.server} at station ${job.server_station}` : "none"],
          ["Progress", job.progress ? `${count(job.progress.done)} of ${count(job.progress.total)}${job.progress.text ? `: ${job.progress.text}` : ""}` : "none"],
          ["Attempts", count(job.attempts)],
          ["Last failure", job.failure || "none"],
          ["File", [h("span", { class: "mono" }, job.file_name), ` of ${bytes(job.file_size)}; only a server that services the job reads it`]],
          ["Flags", job.flags.map((one) => one.replace("_", " ")).join(", ") || "none"],
          ["Tells the queue", job.response_queue || "none"],
        ]),
      ),
      card("Client record", h("pre", { class: "body mono" }, hex(decoded(job.record)))),
    ]);
  });
}
