// The directory: machines, sites and public queues, and the way between two machines.

import { call } from "../lib/api.js";
import { acting, button, card, pairs, rows } from "../lib/cards.js";
import { ask, note } from "../lib/dialogs.js";
import { h, refresh } from "../lib/dom.js";
import { count, time } from "../lib/format.js";

/** @type {import("../lib/page.js").Page} */
export const page = { name: "directory", title: "Directory", role: "look", key: "d", show };

const SHOWN = 500;

/** @param {import("../lib/page.js").Context} context */
function show({ main, poll, may, signal }) {
  const { answer, act } = acting();
  const state = h("div", {});
  const lists = h("div", {});
  main.append(h("div", { class: "heading" }, h("h1", {}, "Directory"), button("Find a route", act(route), "route"), may("operate") && button("Read it again", act(again), "refresh")), answer, state, lists);
  const now = poll(15, async (polled) => {
    const asked = { polled, signal };
    const [status, document] = await Promise.all([call("show_status", {}, null, asked), call("show_directory", {}, null, asked)]);
    // The document leaves out what is empty.
    const { machines = [], sites = [], links = [], queues = [] } = document;
    const directory = status.directory;
    refresh(state, directory, () =>
      card(
        "State",
        pairs([
          ["Source", directory.source || "this queue manager"],
          ["Online", directory.online ? "yes" : `no: ${directory.reason}`],
          ["Since", time(directory.since)],
          ["Read last", time(directory.refreshed)],
          ["Cannot be used", directory.unusable.join("; ") || "nothing"],
        ]),
      ),
    );
    refresh(lists, document, () => [
      card(
        `Machines: ${count(machines.length)}`,
        rows(
          ["Name", "Sites", "Addresses", "Role", "GUID"],
          machines.slice(0, SHOWN).map((one) => [one.name, (one.sites ?? []).join(", "), (one.addresses ?? []).join(", "), one.routing_server ? "routing server" : one.foreign ? "foreign" : "", h("span", { class: "mono" }, one.guid)]),
        ),
      ),
      card(
        `Sites: ${count(sites.length)}`,
        rows(["Name", "Linked to"], sites.slice(0, SHOWN).map((one) => [one.name, links.filter((link) => link.sites.includes(one.name)).map((link) => `${link.sites.filter((name) => name !== one.name).join(", ")} (cost ${link.cost})`).join(", ")])),
      ),
      card(
        `Public queues: ${count(queues.length)}`,
        rows(["Queue", "Label", "Transactional"], queues.slice(0, SHOWN).map((one) => [one.path, one.label, one.transactional ? "yes" : ""])),
      ),
      Math.max(machines.length, sites.length, queues.length) > SHOWN && h("p", { class: "muted" }, `The first ${count(SHOWN)} of each are shown: posthouse directory show has all.`),
    ]);
  });

  async function again() {
    await call("refresh_directory", {});
    note("It is read again.");
    now();
  }

  function route() {
    return ask({
      title: "Find a route",
      act: "Find",
      fields: [
        { name: "source", label: "From", required: true, hint: "Name of a machine." },
        { name: "target", label: "To", required: true },
      ],
      run: async (values) => {
        const found = await call("show_route", { source: values["source"], target: values["target"] });
        return h("ol", { id: "route" }, found.steps.map((one) => h("li", {}, `${one.source} to ${one.target}: ${one.rule}`)));
      },
    });
  }
}
