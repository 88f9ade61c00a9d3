// Groups and pipelines: who reads which queue how far, what is claimed, and batches that wait.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { acting, actions, button, card, pairs, rows } from "../lib/cards.js";
import { ask, note } from "../lib/dialogs.js";
import { h, refresh } from "../lib/dom.js";
import { breakable, bytes, count, many, time } from "../lib/format.js";

/** @typedef {import("../types.js").GroupJson} Group */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "groups", title: "Groups and pipelines", role: "look", key: "p", show };

/** @param {import("../lib/page.js").Context} context */
function show(context) {
  const [queue, name] = context.path;
  if (queue && name) showGroup(context, queue, name);
  else showAll(context);
}

/** Who reads for a group, or did last. @param {Group} group */
function readerOf(group) {
  if (group.leased) return group.owner || "at work";
  return group.owner ? `none; the last was ${group.owner}` : "none";
}

/** @param {import("../lib/page.js").Context} context */
function showAll({ main, poll, may, session: { administrator }, signal }) {
  const { answer, act } = acting();
  const list = h("div", {});
  const stages = h("div", {});
  main.append(h("div", { class: "heading" }, h("h1", {}, "Groups and pipelines")), answer, list, stages);
  const now = poll(3, async (polled) => {
    const asked = { polled, signal };
    const groups = await all(asked);
    const waiting = await call("list_stages", {}, null, asked);
    refresh(list, groups, () =>
      card(
        "Groups",
        rows(
          ["Group", "Queue", "Mode", "#Position", "#Lag", "Claimed", "Reader", "Last", ""],
          groups.map((one) => [
            h("a", { href: to("groups", [one.queue, one.name]) }, one.name),
            h("a", { href: to("queues", [one.queue]) }, breakable(one.queue)),
            one.mode,
            count(one.position),
            one.lag_messages ? `${count(one.lag_messages)} (${bytes(one.lag_bytes)})` : "0",
            one.claimed_messages ? h("span", { class: `badge ${one.leased ? "quiet" : "warn"}` }, many(one.claimed_messages, "message")) : "",
            readerOf(one),
            time(one.last_time),
            may("operate") && buttons(one, act, now),
          ]),
          `No group reads a queue${administrator ? "" : " that you may look at"}. Streams of Spark make groups, and so does posthouse group.`,
        ),
      ),
    );
    refresh(stages, waiting, () =>
      card(
        "Batches that are not published",
        rows(
          ["Query", "#Batch", "#Partition", "#Messages", "#Bytes", "Since", "Until", ""],
          waiting.stages.map((one) => [one.query, count(one.batch), count(one.partition), count(one.messages), bytes(one.bytes), time(one.created_time), time(one.expires_time), may("operate") && button("Discard", act(() => discard(one.query, one.batch)), `discard ${one.query} ${one.batch} ${one.partition}`)]),
          administrator ? "No batch waits." : "No batch of yours waits.",
        ),
        waiting.left_out > 0 && h("div", { class: "empty" }, `${many(waiting.left_out, "batch")} more`),
      ),
    );
  });

  /** @param {{polled: boolean, signal: AbortSignal}} asked */
  async function all(asked) {
    /** @type {Group[]} */
    const found = [];
    for (let offset = 0; ; ) {
      const page = await call("list_groups", { offset }, null, asked);
      found.push(...page.groups);
      if (page.next === null) return found;
      offset = page.next;
    }
  }

  /** @param {string} query  @param {number} batch */
  function discard(query, batch) {
    return ask({
      title: "Discard the batch",
      text: h("p", {}, "Batch ", String(batch), " of ", h("code", {}, query), " is given up: its messages are never seen. Its query writes it again if it still runs."),
      act: "Discard",
      danger: true,
      run: async () => {
        await call("discard_batch", { query, batch });
        note("Discarded.");
        now();
      },
    });
  }
}

/**
 * @param {Group} group
 * @param {(work: () => Promise<unknown>) => () => void} act
 * @param {() => void} done
 * @param {() => void} [gone]
 */
function buttons(group, act, done, gone = done) {
  const name = `${group.queue} ${group.name}`;
  const isFree = !group.leased && !group.claimed_messages; // else the server refuses it
  return actions(
    group.claimed_messages > 0 && button("Settle", act(() => settle(group, done)), `settle ${name}`),
    group.claimed_messages > 0 && button("Release", act(() => release(group, done)), `release ${name}`),
    isFree && button("Position", act(() => move(group, done)), `position ${name}`),
    isFree && button("Delete", act(() => remove(group, gone)), `delete ${name}`),
  );
}

/** @param {import("../lib/page.js").Context} context  @param {string} queue  @param {string} name */
function showGroup({ main, poll, may, signal }, queue, name) {
  const { answer, act } = acting();
  const acts = h("div", { class: "toolbar" });
  const cards = h("div", { class: "grid" });
  document.title = `${name} · Groups`;
  main.append(h("p", {}, h("a", { href: to("groups") }, "Groups and pipelines")), h("div", { class: "heading" }, h("h1", {}, name)), acts, answer, cards);
  const now = poll(3, async (polled) => {
    const group = await call("show_group", { queue, group: name }, null, { polled, signal });
    refresh(acts, [group.leased, group.claimed_messages > 0], () => may("operate") && buttons(group, act, now, () => { location.hash = to("groups"); }));
    refresh(cards, group, () => [
      card(
        "Reading",
        pairs([
          ["Queue", h("a", { href: to("queues", [group.queue]) }, group.queue)],
          ["Mode", group.mode === "consume" ? "consume: it receives what it has read" : "observe: it leaves messages in the queue"],
          ["Position", count(group.position)],
          ["Lag", group.lag_messages ? `${many(group.lag_messages, "message")}, ${bytes(group.lag_bytes)}` : "none"],
          ["Claimed", group.claimed_messages ? `${many(group.claimed_messages, "message")}, above ${count(group.claim_after)} up to ${count(group.claimed)}` : "nothing"],
          ["Stream", group.stream ? h("span", { class: "mono" }, group.stream) : "none"],
          ["Reader", group.leased ? `${readerOf(group)}, for another ${Math.ceil(group.lease_left_ms / 1000)} s` : readerOf(group)],
          ["Epoch", count(group.epoch)],
        ]),
      ),
      card(
        "What became of its messages",
        pairs([
          ["Acknowledged", count(group.acknowledged)],
          ["Received by others", count(group.received_elsewhere)],
          ["Expired", count(group.expired)],
          ["Purged", count(group.purged)],
          ["Moved away", count(group.moved_away)],
          ["Created", time(group.created_time)],
          ["Used last", time(group.last_time)],
        ]),
      ),
    ]);
  });
}

/** @param {Group} group  @param {() => void} done */
function settle(group, done) {
  return ask({
    title: "Settle the claim",
    text: [
      h("p", {}, h("strong", {}, many(group.claimed_messages, "message")), " of ", h("code", {}, group.queue), " that the group ", h("code", {}, group.name), " has claimed count as received, and leave the queue. Do this if its stream has written them."),
      h("p", { class: "hint" }, "Whether it has: ", h("code", {}, "posthouse pipeline settle"), " reads that from the checkpoint of the stream and decides by it. If it has not, release them."),
    ],
    act: "Settle",
    danger: true,
    run: async () => {
      const { received } = await call("acknowledge_messages", { queue: group.queue, group: group.name }, { through: group.claimed, stream: group.stream });
      note(`${many(received, "message")} received.`);
      done();
    },
  });
}

/** @param {Group} group  @param {() => void} done */
function release(group, done) {
  return ask({
    title: "Release the claim",
    text: h("p", {}, h("strong", {}, many(group.claimed_messages, "message")), " of ", h("code", {}, group.queue), " that the group ", h("code", {}, group.name), " has claimed become available to others. If its stream has written them already, they are read twice: settle them instead."),
    act: "Release",
    danger: true,
    run: async () => {
      await call("release_group", { queue: group.queue, group: group.name }, {});
      note("Released.");
      done();
    },
  });
}

/** @param {Group} group  @param {() => void} done */
function move(group, done) {
  return ask({
    title: "Set the position",
    text: h("p", {}, "The group ", h("code", {}, group.name), " goes on after this lookup id. Messages below it count as read by the group."),
    act: "Set",
    fields: [{ name: "position", label: "Position", value: String(group.position), required: true, hint: "A lookup id, earliest or latest." }],
    run: async (values) => {
      const text = String(values["position"]).trim();
      const position = text === "earliest" || text === "latest" ? text : Number(text);
      await call("set_group", { queue: group.queue, group: group.name }, { position });
      note("The position is set.");
      done();
    },
  });
}

/** @param {Group} group  @param {() => void} done */
function remove(group, done) {
  return ask({
    title: "Delete the group",
    text: h("p", {}, "The group ", h("code", {}, group.name), " of ", h("code", {}, group.queue), " goes, with its position. Its messages stay in the queue."),
    act: "Delete",
    danger: true,
    run: async () => {
      await call("delete_group", { queue: group.queue, group: group.name });
      note("Deleted.");
      done();
    },
  });
}
