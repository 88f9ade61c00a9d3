// Transfer: outgoing queues with their state and next hops, as a picture and as a list; online, offline.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { acting, actions, button, card, rows, unseen } from "../lib/cards.js";
import { ask, note } from "../lib/dialogs.js";
import { h, refresh } from "../lib/dom.js";
import { age, breakable, count, many, time } from "../lib/format.js";
import { routes } from "../lib/picture.js";
import { canConnect, isPaused, nameOf, nextTry, stateOf } from "../lib/queues.js";
import { pauseOrResume, retry } from "../lib/queue_acts.js";

/** @typedef {import("../types.js").QueueJson} Queue */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "transfer", title: "Transfer", role: "look", key: "x", show };

const REFUSED_SHOWN = 20;

/** @param {import("../types.js").RefusedMessageJson[]} messages  of other machines, the latest refusal first */
function refusedOf(messages) {
  return card(
    "Refused on arrival",
    rows(
      ["Time", "For", "Why", "Label", "From", "#Times", ""],
      messages.map((one) => [
        time(one.last_time),
        breakable(one.queue),
        one.cause,
        one.label,
        one.address,
        count(one.times),
        h("a", { href: to("life", [one.id]) }, one.dead_letter ? "Kept as a dead letter" : "Life"),
      ]),
      "No message of another machine that you may see was refused lately.",
    ),
  );
}

/** @param {import("../lib/page.js").Context} context */
function show({ main, poll, may, session: { administrator }, signal }) {
  const { answer, act } = acting();
  const line = h("div", { class: "toolbar" });
  const picture = h("div", {});
  const list = h("div", {});
  const peers = h("div", {});
  const refused = h("div", {});
  main.append(h("div", { class: "heading" }, h("h1", {}, "Transfer")), line, administrator ? "" : unseen("outgoing queues"), answer, picture, list, refused, peers);
  const now = poll(3, async (polled) => {
    const asked = { polled, signal };
    const status = await call("show_status", {}, null, asked);
    const turnedAway = await call("list_refused", { limit: REFUSED_SHOWN }, null, asked);
    refresh(refused, turnedAway, () => refusedOf(turnedAway.messages));
    if (!administrator) {
      refresh(line, status.online, () => online(status.online));
      return;
    }
    /** @type {Queue[]} */
    const outgoing = [];
    for (let after = 0; ; ) {
      const page = await call("list_queues", { outgoing: true, after }, null, asked);
      outgoing.push(...page.queues.filter((one) => one.outgoing));
      if (page.next === null) break;
      after = page.next;
    }
    refresh(line, [status.online, outgoing.length], () => [
      online(status.online),
      `${many(outgoing.length, "outgoing queue")}`,
      may("operate") && button(status.online ? "Take offline" : "Bring online", act(() => change(status.online)), "online"),
    ]);
    const hops = hopsOf(outgoing);
    refresh(picture, [status.name, hops], () => (hops.length ? card("Machines", routes(status.name, hops)) : null));
    refresh(list, outgoing.map((one) => [nameOf(one), one.state, one.outgoing, one.messages, one.oldest_age_s]), () =>
      card(
        "Outgoing queues",
        rows(
          ["To", "State", "#Not sent", "#Not confirmed", "Oldest", "Next try", "Last error", ""],
          outgoing.map((one) => [
            h("a", { href: to("queues", [nameOf(one)]) }, breakable(nameOf(one))),
            isPaused(one) ? h("span", { class: "badge warn" }, "paused") : stateOf(one),
            count(one.outgoing?.unsent ?? 0),
            count(one.outgoing?.unacknowledged ?? 0),
            age(one.oldest_age_s),
            time(nextTry(one)),
            (!isPaused(one) && one.messages > 0 && one.outgoing?.last_error) || "",
            may("operate") && actions(button(isPaused(one) ? "Resume" : "Pause", act(() => pauseOrResume(one, now)), `pause ${nameOf(one)}`), canConnect(one) && button("Connect now", act(() => retry(nameOf(one), now)), `retry ${nameOf(one)}`)),
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
          h("div", { class: "body" }, actions(button("Add a peer", act(addPeer), "add-peer"))),
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

  function addPeer() {
    return ask({
      title: "Add a peer",
      text: "Another queue manager takes part in transactions of this one. Add each of the two at the other, with the same key.",
      act: "Add",
      fields: [
        { name: "name", label: "Name", required: true, length: 64 },
        { name: "guid", label: "GUID", required: true, hint: "posthouse status on that machine shows it." },
        { name: "url", label: "Address", required: true, hint: "URL of its admin endpoint." },
        { name: "key", label: "Key", kind: "password", hint: "The key that the other one has shown. Empty: a new key is made." },
      ],
      run: async (values) => {
        const made = await call("add_peer", {}, { name: values["name"], guid: values["guid"], url: values["url"], key: values["key"] || null });
        now();
        if (made.key === null) return undefined;
        return h("div", { class: "notice ok" }, h("p", {}, "Copy the key now, and give it to the other queue manager. It is not shown again."), h("code", { id: "new-key" }, made.key));
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

/** @param {boolean} is */
const online = (is) => h("span", { class: `badge ${is ? "ok" : "warn"}` }, is ? "online" : "offline");

/**
 * The machines that messages go to next, with how many wait, whether that works, and which machines they are for.
 * @param {Queue[]} queues
 * @returns {import("../lib/picture.js").Hop[]}
 */
function hopsOf(queues) {
  /** @type {Map<string, import("../lib/picture.js").Hop>} */
  const found = new Map();
  for (const queue of queues) {
    const out = queue.outgoing;
    if (!out) continue;
    const machine = machineOf(queue);
    for (const name of out.next_hops.length ? out.next_hops : [machine || "not connected"]) {
      const hop = found.get(name) ?? { name, messages: 0, paused: 0, failed: false, machines: [] };
      hop.messages += queue.messages;
      hop.failed ||= Boolean(out.last_error) && queue.messages > 0 && !isPaused(queue);
      hop.paused += isPaused(queue) ? queue.messages : 0;
      if (machine && !isSame(name, machine) && !hop.machines.includes(machine)) hop.machines.push(machine);
      found.set(name, hop);
    }
  }
  return [...found.values()].sort((left, right) => right.messages - left.messages);
}

/** Whether a next hop is the machine itself; hops have the kind of their address in front, and names a port at the end. @param {string} hop  @param {string} machine */
function isSame(hop, machine) {
  const host = (/** @type {string} */ text) => text.toLowerCase().replace(/^\w+=/, "").replace(/:\d+$/, "");
  return host(hop) === host(machine);
}

/** The machine that an outgoing queue is for, as its name has it. @param {Queue} queue */
function machineOf(queue) {
  const direct = /^DIRECT=\w+:(?:\/\/)?([^\\/]+)/i.exec(queue.format_name);
  if (direct) return direct[1] ?? "";
  const cut = queue.path.indexOf("\\");
  return cut > 0 ? queue.path.slice(0, cut) : "";
}
