// One queue: its figures, properties, connection, sequences, groups and access, and its acts.

import { to } from "../lib/address.js";
import { ApiError, call } from "../lib/api.js";
import { acting, button, card, pairs, rows } from "../lib/cards.js";
import { fill, h, refresh } from "../lib/dom.js";
import { age, bytes, count, many, rate, time } from "../lib/format.js";
import { canConnect, isNearlyFull, isPaused, nextTry, stateOf } from "../lib/queues.js";
import { deleteQueue, grant, pauseOrResume, purge, resetSequences, retry, revoke, setQueue } from "../lib/queue_acts.js";

/** @typedef {import("../types.js").QueueJson} Queue */
/** @typedef {import("../types.js").SequencesJson} Sequences */
/** @typedef {import("../lib/dom.js").Child} Child */

/**
 * @param {import("../lib/page.js").Context} context
 * @param {string} path
 */
export function showQueue({ main, poll, may, signal }, path) {
  const title = h("h1", {}, path);
  const badges = h("span", { class: "actions" });
  const acts = h("div", { class: "toolbar" });
  const figures = h("section", { "aria-label": "Figures" });
  const { answer, act } = acting();
  const cards = h("div", { class: "grid" });
  const sequences = h("div", { class: "stack" });
  let closed = false; // whether the user may not see the access list
  const access = h("section", { class: "card", "aria-label": "Access" });
  document.title = `${path} · Queues`;
  fill(main, h("p", {}, h("a", { href: to("queues") }, "Queues")), h("div", { class: "heading" }, title, badges), acts, answer, figures, cards, sequences, access);

  const now = poll(3, async (polled) => {
    const asked = { polled, signal };
    const queue = await call("show_queue", { queue: path }, null, asked);
    const isPlain = queue.kind === "private" || queue.kind === "public";
    const outgoing = queue.kind === "outgoing";
    refresh(badges, [queue.kind, queue.transactional, queue.state, queue.messages === 0, isNearlyFull(queue)], () => [
      h("span", { class: "badge quiet" }, queue.kind.replace("_", " ")),
      queue.transactional && h("span", { class: "badge quiet" }, "transactional"),
      queue.state && h("span", { class: `badge ${isPaused(queue) ? "warn" : "quiet"}` }, stateOf(queue)),
      isNearlyFull(queue) && h("span", { class: "badge warn" }, "nearly full"),
    ]);
    refresh(acts, [queue.kind, queue.state, canConnect(queue), queue.transactional, !queue.outgoing?.sequence], () => [
      h("a", { class: "button", href: to("messages", [path]) }, "Messages"),
      !outgoing && h("a", { class: "button", href: to("tail", [path]) }, "Live tail"),
      may("operate") && button("Purge", act(() => purge(path, now)), "purge"),
      may("operate") && outgoing && button(isPaused(queue) ? "Resume" : "Pause", act(() => pauseOrResume(queue, now)), "pause"),
      may("operate") && canConnect(queue) && button("Connect now", act(() => retry(path, now)), "retry"),
      may("administer") && (isPlain || queue.kind === "subqueue") && button("Properties", act(async () => setQueue(await call("show_queue", { queue: path }), now)), "set"),
      may("administer") && (queue.outgoing?.sequence || (isPlain && queue.transactional)) && button("Reset sequences", act(() => resetSequences(path, now)), "reset"),
      may("administer") && isPlain && button("Delete", act(() => deleteQueue(path, () => { location.hash = to("queues"); })), "delete"),
    ]);
    refresh(figures, [queue.messages, queue.locked, queue.claimed, queue.bytes, queue.oldest_age_s, queue.accepted_per_s, queue.received_per_s, queue.journal_messages, queue.readers, queue.waiting_readers], () => stats(queue));
    refresh(cards, [queue.label, queue.modified_time, queue.quota_kib, queue.journal_messages, queue.connections, queue.outgoing, queue.groups, queue.holders, queue.reason, queue.retry_waiting], () => [
      about(queue),
      queue.outgoing && sending(queue),
      queue.groups.length > 0 && groups(queue),
      queue.holders.length > 0 && holders(queue),
    ]);
    if (queue.transactional || queue.outgoing?.sequence) {
      const found = await call("show_sequences", { queue: path }, null, asked);
      refresh(sequences, found, () => sequencesOf(found));
    }
    if (isPlain || queue.kind === "subqueue") await showAccess(asked);
  });

  /** @param {{polled: boolean, signal: AbortSignal}} asked */
  async function showAccess(asked) {
    if (closed && asked.polled) return;
    try {
      const list = await call("show_access", { queue: path }, null, asked);
      refresh(access, list, () => [
        h("header", {}, h("h2", {}, "Access"), h("span", { class: "muted" }, `Owner: ${list.owner}`), may("administer") && button("Grant", act(() => grant(path, false, now)), "grant"), may("administer") && button("Deny", act(() => grant(path, true, now)), "deny")),
        rows(
          ["Who", "May", "Rights", ""],
          list.entries.map((one) => [
            one.who,
            one.denied ? h("span", { class: "badge bad" }, "denied") : h("span", { class: "badge ok" }, "granted"),
            one.rights.join(", "),
            may("administer") && button("Remove", act(() => revoke(path, one.who, now)), `revoke ${one.sid} ${one.denied}`),
          ]),
        ),
      ]);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 403) throw error;
      closed = true;
      refresh(access, error.reason, () => h("div", { class: "empty" }, error.reason));
    }
  }
}

/** @param {Queue} queue */
function stats(queue) {
  const figures = [
    ["Messages", count(queue.messages), queue.locked ? `${count(queue.locked)} locked` : ""],
    ["Oldest", age(queue.oldest_age_s) || "none", ""],
    ["In", rate(queue.accepted_per_s), "per s"],
    ["Out", rate(queue.received_per_s), "per s"],
    ["Bytes", bytes(queue.bytes), queue.quota_kib ? `of ${bytes(queue.quota_kib * 1024)}` : ""],
    ["Journal", count(queue.journal_messages), ""],
    ["Readers", count(queue.readers), queue.waiting_readers ? `${queue.waiting_readers} waiting` : ""],
  ];
  return h("dl", { class: "stats" }, figures.map(([name, value, unit]) => h("div", { class: "stat" }, h("dt", {}, name), h("dd", {}, value, unit && " ", unit && h("small", {}, unit)))));
}

/** @param {Queue} queue */
function about(queue) {
  /** @type {Array<[string, Child]>} */
  const lines = [
    ["Label", queue.label || "none"],
    ["Format name", h("span", { class: "mono" }, queue.format_name)],
    ["Journal", queue.journal ? "received messages are kept" : "off"],
    ["Only signed messages", queue.authenticated ? "yes" : "no"],
    ["Privacy", queue.privacy],
    ["Quota of the journal", queue.journal_quota_kib === null ? "none" : bytes(queue.journal_quota_kib * 1024)],
    ["Quota", queue.quota_kib === null ? "none" : bytes(queue.quota_kib * 1024)],
    ["Base priority", queue.base_priority],
    ["Retries", queue.retry_delays_s.length ? `after ${queue.retry_delays_s.map((one) => age(one)).join(", ")}; ${many(queue.retry_waiting, "message")} waiting` : "at once"],
    ["Poison policy", queue.max_aborts ? `after ${many(queue.max_aborts, "abort")} to ${queue.poison_queue || "the subqueue ;poison"}` : "off"],
    ["Created", time(queue.created_time)],
    ["Changed", time(queue.modified_time)],
  ];
  if (queue.reason) lines.push(["Directory", queue.reason]);
  if (queue.multicast) lines.push(["Multicast address", queue.multicast]);
  return card("Properties", pairs(lines));
}

/** @param {Queue} queue */
function sending(queue) {
  const out = /** @type {NonNullable<Queue["outgoing"]>} */ (queue.outgoing);
  /** @type {Array<[string, Child]>} */
  const lines = [
    ["Not sent yet", count(out.unsent)],
    ["Not acknowledged", count(out.unacknowledged)],
    ["Delivered", count(out.delivered)],
    ["Failed", count(out.failed)],
    ["Next hops", out.next_hops.join(", ") || "none"],
    ["Last error", out.last_error || "none"],
    ["Next try", time(nextTry(queue)) || "–"],
  ];
  return [
    card("Delivery", pairs(lines)),
    card("Connection history", rows(["Time", "What happened", "Next hops"], queue.connections.map((one) => [time(one.time), one.status, one.next_hops.join(", ")]))),
  ];
}

/** @param {Queue} queue */
function holders(queue) {
  return card("Holders of locked messages", rows(["User", "By", "#Messages"], queue.holders.map((one) => [one.user, one.by, count(one.messages)])));
}

/** @param {Queue} queue */
function groups(queue) {
  return card("Groups", rows(["Group", "Mode", "#Position", "#Lag"], queue.groups.map((one) => [h("a", { href: to("groups", [one.queue, one.name]) }, one.name), one.mode, count(one.position), count(one.lag_messages)])));
}

/** A place in a sequence. @param {import("../types.js").SequencePlaceJson | null | undefined} place */
const placeOf = (place) => (place ? h("span", { class: "mono" }, `${place.sequence} / ${count(place.number)}`) : "none");

/** How far the sequences of transactional messages have come, and what keeps one from going on. @param {Sequences} found */
function sequencesOf(found) {
  const { incoming, turned_away: away, conflicts, outgoing } = found;
  return [
    outgoing &&
      card(
        "Sequence that goes out",
        pairs([
          ["Next", placeOf(outgoing.next)],
          ["Last acknowledged", [placeOf(outgoing.last_acknowledged), outgoing.last_acknowledged_time && ` at ${time(outgoing.last_acknowledged_time)}`]],
          ["Not acknowledged", [count(outgoing.unacknowledged), outgoing.first_unacknowledged && ", from ", outgoing.first_unacknowledged && placeOf(outgoing.first_unacknowledged)]],
          ["Acknowledged, not read", count(outgoing.unread)],
          ["Sent again", outgoing.resend_time ? `${many(outgoing.resends, "time")}, next at ${time(outgoing.resend_time)}` : many(outgoing.resends, "time")],
        ]),
      ),
    incoming.length > 0 && card("Sequences that come in", rows(["From", "Address", "Sequence", "#Place", "#Rejected", "Last"], incoming.map((one) => [one.source, one.address, h("span", { class: "mono" }, one.sequence), count(one.number), one.rejected ? h("span", { class: "badge warn" }, count(one.rejected)) : "0", time(one.last_time)]))),
    away.length > 0 && card("Turned away: not the next of their sequence", rows(["From", "Address", "Came with", "#Messages", "Since", "Last"], away.map((one) => [one.source, one.address, placeOf(one.place), count(one.messages), time(one.since), time(one.last_time)]))),
    conflicts.length > 0 && card("Two machines with one name", rows(["Name", "Address", "Other address", "Last"], conflicts.map((one) => [one.source, one.address, one.other, time(one.last_time)]))),
  ];
}
