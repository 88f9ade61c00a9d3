// Transfer: outgoing queues with their state and next hops, as a picture and as a list; online, offline.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { acting, actions, button, card, rows } from "../lib/cards.js";
import { ask, note } from "../lib/dialogs.js";
import { h, refresh, s } from "../lib/dom.js";
import { age, count, many, time } from "../lib/format.js";
import { isPaused, nameOf } from "../lib/queues.js";
import { pauseOrResume, retry } from "../lib/queue_acts.js";

/** @typedef {import("../types.js").QueueJson} Queue */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "transfer", title: "Transfer", role: "look", key: "x", show };

const DRAWN_MAX = 24; // next hops in the picture
const ROW = 34;

/** @param {import("../lib/page.js").Context} context */
function show({ main, poll, may, signal }) {
  const { answer, act } = acting();
  const line = h("div", { class: "toolbar" });
  const picture = h("div", {});
  const list = h("div", {});
  const peers = h("div", {});
  main.append(h("div", { class: "heading" }, h("h1", {}, "Transfer")), line, answer, picture, list, peers);
  const now = poll(3, async (polled) => {
    const asked = { polled, signal };
    const status = await call("show_status", {}, null, asked);
    /** @type {Queue[]} */
    const outgoing = [];
    for (let after = 0; ; ) {
      const page = await call("list_queues", { outgoing: true, after }, null, asked);
      outgoing.push(...page.queues.filter((one) => one.outgoing));
      if (page.next === null) break;
      after = page.next;
    }
    refresh(line, [status.online, outgoing.length], () => [
      h("span", { class: `badge ${status.online ? "ok" : "warn"}` }, status.online ? "online" : "offline"),
      `${many(outgoing.length, "outgoing queue")}`,
      may("operate") && button(status.online ? "Take offline" : "Bring online", act(() => change(status.online)), "online"),
    ]);
    const hops = hopsOf(outgoing);
    refresh(picture, [status.name, hops], () => (hops.length ? card("Machines", drawn(status.name, hops)) : null));
    refresh(list, outgoing.map((one) => [nameOf(one), one.state, one.outgoing, one.messages, one.oldest_age_s]), () =>
      card(
        "Outgoing queues",
        rows(
          ["To", "State", "#Not sent", "#Not acknowledged", "Oldest", "Next try", "Last error", ""],
          outgoing.map((one) => [
            h("a", { href: to("queues", [nameOf(one)]) }, nameOf(one)),
            isPaused(one) ? h("span", { class: "badge warn" }, "paused") : one.state,
            count(one.outgoing?.unsent ?? 0),
            count(one.outgoing?.unacknowledged ?? 0),
            age(one.oldest_age_s),
            time(one.outgoing?.next_retry_time),
            one.outgoing?.last_error ?? "",
            may("operate") && actions(button(isPaused(one) ? "Resume" : "Pause", act(() => pauseOrResume(one, now)), `pause ${nameOf(one)}`), button("Connect now", act(() => retry(nameOf(one), now)), `retry ${nameOf(one)}`)),
          ]),
          "Nothing is sent to other machines.",
        ),
      ),
    );
    if (may("administer")) {
      const trusted = await call("list_peers", {}, null, asked);
      refresh(peers, trusted, () =>
        card(
          "Peers of transactions",
          rows(["Name", "Address", "Since", ""], trusted.peers.map((one) => [one.name, one.url, time(one.created_time), button("Remove", act(() => removePeer(one.name)), `peer ${one.name}`)]), "No other queue manager takes part in transactions of this one."),
        ),
      );
    }
  });

  /** @param {boolean} online */
  function change(online) {
    return ask({
      title: online ? "Take the queue manager offline" : "Bring the queue manager online",
      text: online ? "Nothing is sent to or taken from other queue managers. The queues here stay usable." : "It connects to other queue managers again.",
      act: online ? "Take offline" : "Bring online",
      danger: online,
      run: async () => {
        if (online) await call("take_offline", {});
        else await call("bring_online", {});
        note(online ? "It is offline." : "It is online.");
        now();
      },
    });
  }

  /** @param {string} name */
  function removePeer(name) {
    return ask({
      title: "Remove the peer",
      text: h("p", {}, h("code", {}, name), " no longer takes part in transactions of this queue manager."),
      act: "Remove",
      danger: true,
      run: async () => {
        await call("remove_peer", { name });
        note("Removed.");
        now();
      },
    });
  }
}

/**
 * The machines that messages go to next, with how many wait and whether that works.
 * @param {Queue[]} queues
 */
function hopsOf(queues) {
  /** @type {Map<string, {name: string, messages: number, failed: boolean}>} */
  const found = new Map();
  for (const queue of queues) {
    const out = queue.outgoing;
    if (!out) continue;
    for (const name of out.next_hops.length ? out.next_hops : ["not connected"]) {
      const hop = found.get(name) ?? { name, messages: 0, failed: false };
      hop.messages += queue.messages;
      hop.failed ||= Boolean(out.last_error);
      found.set(name, hop);
    }
  }
  return [...found.values()].sort((left, right) => right.messages - left.messages).slice(0, DRAWN_MAX);
}

/** @param {string} name  @param {ReturnType<typeof hopsOf>} hops */
function drawn(name, hops) {
  const height = Math.max(hops.length * ROW, ROW * 2);
  const middle = height / 2;
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Picture" },
    s(
      "svg",
      { viewBox: `0 0 640 ${height}`, width: "640", height: String(height), role: "img", "aria-label": `${name} sends to ${hops.map((one) => one.name).join(", ")}` },
      hops.map((hop, place) => {
        const y = place * ROW + ROW / 2;
        return [
          s("path", { d: `M150 ${middle} C 260 ${middle}, 260 ${y}, 370 ${y}`, fill: "none", stroke: "currentColor", "stroke-width": "1.5", "stroke-dasharray": hop.failed ? "4 4" : null }),
          s("text", { x: "380", y: String(y + 4), fill: "currentColor", "font-size": "13" }, `${hop.name}: ${many(hop.messages, "message")}${hop.failed ? ", does not connect" : ""}`),
        ];
      }),
      s("rect", { x: "10", y: String(middle - 15), width: "140", height: "30", rx: "6", fill: "none", stroke: "currentColor" }),
      s("text", { x: "80", y: String(middle + 4), fill: "currentColor", "font-size": "13", "text-anchor": "middle" }, name),
    ),
  );
}
