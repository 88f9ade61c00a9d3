// Groups and pipelines: who reads which queue how far, what is claimed, and batches that wait.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { acting, actions, button, card, rows } from "../lib/cards.js";
import { ask, note } from "../lib/dialogs.js";
import { h, refresh } from "../lib/dom.js";
import { bytes, count, many, time } from "../lib/format.js";

/** @typedef {import("../types.js").GroupJson} Group */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "groups", title: "Groups and pipelines", role: "look", key: "p", show };

/** @param {import("../lib/page.js").Context} context */
function show({ main, poll, may, signal }) {
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
            one.name,
            h("a", { href: to("queues", [one.queue]) }, one.queue),
            one.mode,
            count(one.position),
            one.lag_messages ? `${count(one.lag_messages)} (${bytes(one.lag_bytes)})` : "0",
            one.claimed_messages ? h("span", { class: `badge ${one.leased ? "quiet" : "warn"}` }, many(one.claimed_messages, "message")) : "",
            one.leased ? one.owner || "at work" : "none",
            time(one.last_time),
            may("operate") &&
              actions(
                one.claimed_messages > 0 && button("Release", act(() => release(one)), `release ${one.queue} ${one.name}`),
                button("Position", act(() => move(one)), `position ${one.queue} ${one.name}`),
                button("Delete", act(() => remove(one)), `delete ${one.queue} ${one.name}`),
              ),
          ]),
          "No group reads a queue. Streams of Spark make groups, and so does posthouse group.",
        ),
      ),
    );
    refresh(stages, waiting, () =>
      card(
        "Batches that are not published",
        rows(
          ["Query", "#Batch", "#Partition", "#Messages", "#Bytes", "Since", "Until", ""],
          waiting.stages.map((one) => [one.query, count(one.batch), count(one.partition), count(one.messages), bytes(one.bytes), time(one.created_time), time(one.expires_time), may("operate") && button("Discard", act(() => discard(one.query, one.batch)), `discard ${one.query} ${one.batch} ${one.partition}`)]),
          "No batch waits.",
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

  /** @param {Group} group */
  function release(group) {
    return ask({
      title: "Release the claim",
      text: h("p", {}, h("strong", {}, many(group.claimed_messages, "message")), " of ", h("code", {}, group.queue), " that the group ", h("code", {}, group.name), " has claimed become available to others. If its stream has written them already, they are read twice: settle its checkpoint instead, with ", h("code", {}, "posthouse pipeline settle"), "."),
      act: "Release",
      danger: true,
      run: async () => {
        await call("release_group", { queue: group.queue, group: group.name }, {});
        note("Released.");
        now();
      },
    });
  }

  /** @param {Group} group */
  function move(group) {
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
        now();
      },
    });
  }

  /** @param {Group} group */
  function remove(group) {
    return ask({
      title: "Delete the group",
      text: h("p", {}, "The group ", h("code", {}, group.name), " of ", h("code", {}, group.queue), " goes, with its position. Its messages stay in the queue."),
      act: "Delete",
      danger: true,
      run: async () => {
        await call("delete_group", { queue: group.queue, group: group.name });
        note("Deleted.");
        now();
      },
    });
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
