// Overview: what is wrong first, then how much moves, and what waits where.

import { to } from "../lib/address.js";
import { advice } from "../lib/advice.js";
import { ApiError, call } from "../lib/api.js";
import { unseen } from "../lib/cards.js";
import { chart } from "../lib/chart.js";
import { classOf } from "../lib/classes.js";
import { cell, h, refresh } from "../lib/dom.js";
import { failures } from "../lib/failures.js";
import { isPaused, nameOf } from "../lib/queues.js";
import { age, breakable, bytes, count, many, parts, rate } from "../lib/format.js";

/** @typedef {import("../types.js").StatusJson} Status */
/** @typedef {import("../types.js").QueueJson} Queue */
/** @typedef {import("../types.js").JobQueueJson} JobQueue */
/** @typedef {{queue: string, reason: string, isClass: boolean, count: number}} Reason */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "overview", title: "Overview", role: "look", key: "o", show };

const QUEUES_SHOWN = 8;

/** @param {import("../lib/page.js").Context} context */
function show({ main, may, poll, session: { administrator }, signal }) {
  const health = h("section", { "aria-label": "Health", id: "health" });
  const figures = h("section", { "aria-label": "Figures" });
  const cards = h("div", { class: "grid" });
  const drawn = h("div", { class: "charts body" });
  /** @type {"hour" | "day"} */
  let span = "hour";
  const choice = h("select", { "aria-label": "Time of the charts", onchange: () => { span = choice.value === "day" ? "day" : "hour"; draw(); } }, h("option", { value: "hour" }, "Last hour"), h("option", { value: "day" }, "Last day"));
  const charts = h("section", { class: "card", "aria-label": "Charts" }, h("header", {}, h("h2", {}, "Over time"), choice), drawn);
  /** @type {Reason[]} */
  let reasons = [];
  /** @type {Set<string>} */
  const closed = new Set();
  /** @type {JobQueue[]} */
  let jobQueues = [];
  main.append(h("div", { class: "heading" }, h("h1", {}, "Overview")), health, administrator ? "" : unseen("all queues, the outgoing ones, transactions, refused requests and the charts"), figures, administrator ? charts : "", cards);
  /** @type {{status: Status, queues: Queue[]} | null} */
  let seenLast = null;
  const drawCards = () => {
    if (!seenLast) return;
    const { status, queues } = seenLast;
    refresh(cards, [reasons, jobQueues, status, queues.map((one) => [nameOf(one), one.messages, one.oldest_age_s, one.accepted_per_s, one.received_per_s, one.state])], () => [
      deadLetters(status, reasons, administrator),
      administrator && outgoing(status, queues),
      busiest(queues, administrator),
      claims(status, administrator),
      jobQueues.length > 0 && jobs(jobQueues),
      machine(status),
      administrator && refusals(status),
    ]);
  };
  const draw = administrator ? poll(10, async (polled) => {
    const history = await call("show_history", { span }, null, { polled, signal });
    refresh(drawn, history, () => chartsOf(history));
  }) : () => {};
  poll(60, async (polled) => {
    const status = await call("show_status", {}, null, { polled, signal });
    if (may("read")) reasons = await reasonsOf(status, closed, { polled, signal });
    jobQueues = await jobQueuesOf({ polled, signal });
    drawCards();
  });
  poll(5, async (polled) => {
    const asked = { polled, signal };
    const [status, listed] = await Promise.all([
      call("show_status", {}, null, asked),
      call("list_queues", { outgoing: administrator, system: true }, null, asked),
    ]);
    const queues = listed.queues;
    refresh(health, [status.queues === 0, status.problems, status.ready, status.not_ready, status.throttled, status.online], () => healthOf(status, administrator));
    const seen = figuresOf(status, queues);
    refresh(figures, seen, () => stats(seen));
    seenLast = { status, queues };
    drawCards();
  });
}

/** @param {Status} status  @param {boolean} whole  whether the user sees everything */
function healthOf(status, whole) {
  const lines = [...status.not_ready.filter((why) => !status.problems.some((line) => line.includes(why))), ...status.problems];
  if (!status.online) lines.push("it is offline: nothing is sent to or taken from other queue managers. posthouse online");
  const blind = !whole && status.queues === 0;
  const grade = !status.ready ? "bad" : lines.length || blind ? "warn" : "ok";
  const words = !status.ready ? "It takes no messages." : lines.length ? `${many(lines.length, "thing")} to look at.` : whole ? "All is well." : blind ? "There is no queue that you may look at." : "All is well with what you see.";
  return h(
    "div",
    { class: `notice ${grade}` },
    h("p", { class: "health" }, h("span", { class: `dot ${grade}` }), words),
    blind && h("p", {}, "An administrator can grant you rights on the page of a queue: get-properties shows its counts."),
    lines.length > 0 && h("ul", {}, lines.map((line) => h("li", {}, advice(line)))),
  );
}

/**
 * @param {Status} status
 * @param {Queue[]} queues
 */
function figuresOf(status, queues) {
  const own = queues.filter((one) => one.kind !== "outgoing");
  const sum = (/** @type {Queue[]} */ list, /** @type {(one: Queue) => number} */ of) => list.reduce((total, one) => total + of(one), 0);
  const waiting = queues.filter((one) => one.kind !== "journal" && !one.kind.includes("journal"));
  const oldest = waiting.reduce((most, one) => Math.max(most, one.oldest_age_s ?? -1), -1);
  return [
    ["Messages", count(status.messages), ""],
    ["Bytes", bytes(status.bytes), ""],
    ["In", rate(sum(own, (one) => one.accepted_per_s)), "per s"],
    ["Out", rate(sum(own, (one) => one.received_per_s)), "per s"],
    ["Oldest message", oldest < 0 ? "none" : age(oldest), ""],
    ["Queues", count(status.queues), ""],
    ["Transactions", status.transactions === null ? "–" : count(status.transactions), status.in_doubt ? `${status.in_doubt} in doubt` : ""],
  ];
}

/** @param {string[][]} figures */
function stats(figures) {
  return h("dl", { class: "stats" }, figures.map(([name, value, unit]) => h("div", { class: "stat" }, h("dt", {}, name), h("dd", {}, value, unit && " ", unit && h("small", {}, unit)))));
}

/**
 * @param {string} title
 * @param {import("../lib/dom.js").Child} content
 * @param {import("../lib/dom.js").Child} [more]
 */
function card(title, content, more) {
  return h("section", { class: "card" }, h("header", {}, h("h2", {}, title), more), content);
}

/**
 * @param {string[]} heads  a leading "#" stands for figures at the right
 * @param {import("../lib/dom.js").Child[][]} rows
 * @param {string} empty
 */
function small(heads, rows, empty) {
  if (!rows.length) return h("div", { class: "empty" }, empty);
  const kind = (/** @type {number} */ place) => (heads[place]?.startsWith("#") ? "number" : "");
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, heads.map((one, place) => h("th", { scope: "col", class: kind(place) }, one.replace("#", ""))))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((one, place) => cell({ class: kind(place) }, one))))),
    ),
  );
}

/** @param {string} path */
const queueLink = (path) => h("a", { href: to("queues", [path]) }, parts(path).name || path);

/**
 * Why messages are dead letters, of the first messages of each queue.
 * @param {Status} status
 * @param {Set<string>} closed  queues that the user may not read; they are asked once
 * @param {{polled: boolean, signal: AbortSignal}} asked
 * @returns {Promise<Reason[]>}
 */
async function reasonsOf(status, closed, asked) {
  /** @type {Map<string, Reason>} */
  const found = new Map();
  for (const { name: queue } of status.dead_letters.slice(0, QUEUES_SHOWN)) {
    if (closed.has(queue)) continue;
    const { groups } = await failures(queue, {}, asked, 1).catch((error) => {
      if (!(error instanceof ApiError) || error.status !== 403) throw error;
      closed.add(queue);
      return { groups: [] };
    });
    for (const group of groups) {
      const reason = group.exception_type ?? group.class;
      const one = found.get(`${queue} ${reason}`) ?? { queue, reason, isClass: !group.exception_type, count: 0 };
      one.count += group.count;
      found.set(`${queue} ${reason}`, one);
    }
  }
  return [...found.values()].sort((left, right) => right.count - left.count).slice(0, QUEUES_SHOWN);
}

/** @param {import("../types.js").HistoryJson} history */
function chartsOf(history) {
  const words = history.span === "day" ? "the last day" : "the last hour";
  const free = history.disk_free.filter((one) => one !== null);
  return [
    chart("Messages a second", [{ name: "in", values: history.accepted }, { name: "out", values: history.received }], rate, words),
    chart("Waiting messages", [{ name: "all", values: history.messages }, { name: "outgoing", values: history.outgoing }], count, words),
    chart("Oldest message", [{ name: "age", values: history.oldest_age_s }], age, words),
    chart("Dead letters", [{ name: "all", values: history.dead_letters }], count, words),
    free.length > 0 && chart("Free disk", [{ name: "bytes", values: history.disk_free }], bytes, words),
  ];
}

/**
 * @param {Status} status
 * @param {Reason[]} reasons
 * @param {boolean} whole
 */
function deadLetters(status, reasons, whole) {
  const known = new Set(reasons.map((one) => one.queue));
  const rows = [
    ...reasons.map((one) => [h("a", { href: to("failures", [one.queue]) }, parts(one.queue).name), one.isClass ? classOf(one.reason) : one.reason, count(one.count)]),
    ...status.dead_letters.filter((one) => !known.has(one.name)).map((one) => [queueLink(one.name), "", count(one.count)]),
  ];
  return card("Dead letters by reason", small(["Queue", "Reason", "#Messages"], rows, whole ? "There are none." : "There are none in queues that you may look at."));
}

/**
 * @param {Status} status
 * @param {Queue[]} queues
 */
function outgoing(status, queues) {
  const all = queues.filter((one) => one.kind === "outgoing");
  const link = (/** @type {string} */ path) => h("a", { href: to("queues", [path]) }, breakable(path)); // its last part alone does not tell the machine
  const rows = [
    ...all.filter((one) => one.messages > 0 && isPaused(one)).map((one) => [link(nameOf(one)), count(one.messages), h("span", { class: "badge warn" }, "paused")]),
    ...status.unreachable.map((one) => [link(one.queue), count(one.messages), one.reason]),
  ];
  return card(
    "Outgoing queues in trouble",
    small(["Queue", "#Waiting", "Reason"], rows, all.length ? `All ${count(all.length)} of them connect, or have nothing to send.` : "Nothing goes to other machines."),
  );
}

/** @param {Queue[]} queues  @param {boolean} whole */
function busiest(queues, whole) {
  const rows = queues
    .filter((one) => one.messages > 0 && one.kind !== "outgoing")
    .sort((left, right) => right.messages - left.messages)
    .slice(0, QUEUES_SHOWN)
    .map((one) => [queueLink(nameOf(one)), count(one.messages), age(one.oldest_age_s), rate(one.accepted_per_s), rate(one.received_per_s)]);
  return card("Queues with most messages", small(["Queue", "#Messages", "#Oldest", "#In/s", "#Out/s"], rows, whole ? "All queues are empty." : "All queues that you may look at are empty."), h("a", { href: to("queues") }, "All queues"));
}

/** @param {Status} status  @param {boolean} whole */
function claims(status, whole) {
  const rows = status.claims.map((one) => [
    queueLink(one.queue),
    h("a", { href: to("groups", [one.queue, one.group]) }, one.group),
    count(one.messages),
    one.leased ? h("span", { class: "badge ok" }, "at work") : h("span", { class: "badge warn" }, "no reader"),
  ]);
  return card("Claims of groups", small(["Queue", "Group", "#Messages", "Reader"], rows, whole ? "No messages are claimed." : "No messages are claimed in queues that you may look at."));
}

/**
 * The job queues, as far as the first page has them; none where the user may not look.
 * @param {{polled: boolean, signal: AbortSignal}} asked
 * @returns {Promise<JobQueue[]>}
 */
async function jobQueuesOf(asked) {
  try {
    return (await call("list_job_queues", {}, null, asked)).queues;
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return [];
    throw error;
  }
}

/** @param {JobQueue[]} queues */
function jobs(queues) {
  const rows = [...queues]
    .sort((left, right) => (right.jobs ?? 0) - (left.jobs ?? 0))
    .slice(0, QUEUES_SHOWN)
    .map((one) => [one.name, one.jobs === null ? "–" : count(one.jobs), one.servers === null ? "–" : count(one.servers.length)]);
  return card("Job queues", small(["Queue", "#Jobs", "#Servers"], rows, "There are none."), h("a", { href: to("jobs") }, "All job queues"));
}

/** @param {Status} status */
function machine(status) {
  const directory = status.directory;
  const pairs = [
    ["Name", status.name],
    ["GUID", h("span", { class: "mono" }, status.guid)],
    ["Version", status.version],
    ["State", status.online ? status.state : `${status.state}, offline`],
    ["Address", status.url],
    ["Throttled", status.throttled.join(", ") || "no"],
    ["Directory", `${directory.source || "its own"}, ${directory.online ? "online" : `offline: ${directory.reason}`}`],
    ["Damaged records", count(status.damaged)],
  ];
  return card("Queue manager", h("div", { class: "body" }, h("dl", { class: "pairs" }, pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))));
}

/** @param {Status} status */
function refusals(status) {
  const rows = [...status.refusals].sort((left, right) => right.count - left.count).slice(0, QUEUES_SHOWN).map((one) => [h("span", { class: "mono" }, one.name), count(one.count)]);
  return card("Refused requests", small(["Result", "#Since the start"], rows, "None since the start."));
}
