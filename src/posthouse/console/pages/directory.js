// The directory: machines, sites and public queues, and the way between two machines.

import { ApiError, call } from "../lib/api.js";
import { contentOf } from "../lib/bytes.js";
import { acting, actions, button, card, pairs, rows, unseen } from "../lib/cards.js";
import { ask, note } from "../lib/dialogs.js";
import { h, refresh } from "../lib/dom.js";
import { count, many, time } from "../lib/format.js";
import { sites as drawnSites, way } from "../lib/picture.js";

/** @type {import("../lib/page.js").Page} */
export const page = { name: "directory", title: "Directory", role: "look", key: "d", show };

const SHOWN = 500;

/** @typedef {import("../types.js").DirectoryRemoveBody["kind"]} Kind */
/** @typedef {import("../types.js").DirectoryChangeJson} Changes */

/** @param {import("../lib/page.js").Context} context */
function show({ main, poll, may, session: { administrator }, signal }) {
  const { answer, act } = acting();
  const state = h("div", {});
  const lists = h("div", { class: "stack" });
  main.append(h("div", { class: "heading" }, h("h1", {}, "Directory"), button("Find queues", act(find), "find"), button("Where a queue is", act(place), "place"), administrator && button("Find a route", act(route), "route"), may("administer") && button("Change it", act(change), "import"), may("administer") && button("Enter a user", act(enterUser), "enter-user"), may("operate") && administrator && button("Read it again", act(again), "refresh")), answer, administrator ? "" : unseen("the lists of the directory"), state, lists);
  const now = poll(15, async (polled) => {
    const asked = { polled, signal };
    const [status, document] = await Promise.all([call("show_status", {}, null, asked), administrator ? call("show_directory", {}, null, asked) : null]);
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
    if (!document) return;
    // The document leaves out what is empty.
    const { machines = [], sites = [], queues = [], users = [] } = document;
    const links = (document.links ?? []).map((one) => ({ ...one, cost: one.cost ?? 1 }));
    refresh(lists, document, () => [
      card(
        `Machines: ${count(machines.length)}`,
        rows(
          ["Name", "Sites", "Addresses", "Role", "GUID", ""],
          machines.slice(0, SHOWN).map((one) => [one.name, (one.sites ?? []).join(", "), (one.addresses ?? []).join(", "), one.routing_server ? "routing server" : one.foreign ? "foreign" : "", h("span", { class: "mono" }, one.guid), removal("machine", one.name)]),
        ),
      ),
      card(
        `Sites: ${count(sites.length)}`,
        sites.length > 1 && drawnSites(sites.map((one) => one.name), links),
        rows(["Name", "Linked to", ""], sites.slice(0, SHOWN).map((one) => [one.name, links.filter((link) => link.sites.includes(one.name)).map((link) => `${link.sites.filter((name) => name !== one.name).join(", ")} (cost ${link.cost})`).join(", "), removal("site", one.name)])),
      ),
      card(
        `Public queues: ${count(queues.length)}`,
        rows(["Queue", "Label", "Transactional", ""], queues.slice(0, SHOWN).map((one) => [one.path, one.label, one.transactional ? "yes" : "", removal("queue", one.path)])),
      ),
      users.length > 0 && card(`Users: ${count(users.length)}`, rows(["Name", "SID", "#Certificates", ""], users.slice(0, SHOWN).map((one) => [one.name, h("span", { class: "mono" }, one.sid), count((one.certificates ?? []).length), removal("user", one.sid)]))),
      Math.max(machines.length, sites.length, queues.length, users.length) > SHOWN && h("p", { class: "muted" }, `The first ${count(SHOWN)} of each are shown: posthouse directory show has all.`),
    ]);
  });

  /** @param {Kind} kind  @param {string} name */
  function removal(kind, name) {
    return may("administer") && actions(button("Remove", act(() => remove(kind, name)), `remove ${kind} ${name}`));
  }

  /** @param {Kind} kind  @param {string} name */
  async function remove(kind, name) {
    const found = await call("remove_from_directory", {}, { kind, name, dry_run: true });
    return ask({
      title: "Remove from the directory",
      text: [h("p", {}, `The ${kind} `, h("code", {}, name), " goes. All queue managers that use this directory see that."), changesOf(found)],
      act: "Remove",
      danger: true,
      run: async () => {
        await call("remove_from_directory", {}, { kind, name });
        note("Removed.");
        now();
      },
    });
  }

  function change() {
    return ask({
      title: "Change the directory",
      text: "A document as posthouse directory export writes it. What it names is created or changed; what it does not name stays. All of it is done, or nothing.",
      act: "Look what it changes",
      wide: true,
      fields: [
        { name: "document", label: "Document (JSON)", kind: "textarea", required: true },
        { name: "prune", label: "Also remove what the document does not name", kind: "checkbox" },
      ],
      run: async (values, _, confirmed) => {
        let document;
        try {
          document = JSON.parse(values["document"]);
        } catch (error) {
          throw new ApiError(0, "", `the document is not JSON: ${error instanceof Error ? error.message : error}`, "Nothing was changed.");
        }
        if (!confirmed) {
          const found = await call("import_directory", {}, { document, prune: values["prune"], dry_run: true });
          return { again: `Change ${many(found.changes.length, "object")}`, shown: changesOf(found) };
        }
        const done = await call("import_directory", {}, { document, prune: values["prune"] });
        note(`${many(done.changes.length, "object")} changed.`);
        now();
        return undefined;
      },
    });
  }

  function enterUser() {
    return ask({
      title: "Enter a user",
      text: "Queue managers that use this directory know signatures of the user by the certificate.",
      act: "Enter",
      fields: [
        { name: "user", label: "User", required: true, hint: "A user here, or a SID." },
        { name: "name", label: "Name in the directory", hint: "Empty: the name here." },
        { name: "file", label: "Certificate", kind: "file", hint: "PEM or DER." },
      ],
      run: async (values) => {
        const certificates = values["file"] ? [await contentOf(values["file"])] : [];
        const done = await call("enter_user", {}, { user: values["user"], name: values["name"], certificates });
        now();
        return changesOf(done);
      },
    });
  }

  function find() {
    return ask({
      title: "Find public queues",
      act: "Find",
      wide: true,
      fields: [
        { name: "label", label: "Label", hint: "The whole label. Empty: any." },
        { name: "machine", label: "Machine", hint: "Empty: any." },
        { name: "type", label: "Type", hint: "A GUID. Empty: any." },
      ],
      run: async (values) => {
        const asked = Object.fromEntries(Object.entries(values).filter(([, value]) => value));
        const found = await call("find_queues", asked);
        return h("div", { id: "found-queues" }, rows(["Queue", "Label", "Format name", "Created"], found.queues.map((one) => [one.path, one.label, h("span", { class: "mono" }, one.format_name), time(one.created_time)]), "No public queue fits."), found.left_off > 0 && h("p", { class: "hint" }, `${many(found.left_off, "queue")} more`));
      },
    });
  }

  function place() {
    return ask({
      title: "Where a queue is",
      act: "Find",
      fields: [{ name: "queue", label: "Queue", required: true, hint: "A path name or a format name." }],
      run: async (values) => {
        const found = await call("show_place", { queue: values["queue"] });
        return h("div", { id: "place" }, pairs([["Machine", found.machine], ["Addresses", found.hosts.join(", ") || "none"], ["Path there", found.path], ["Format name", h("span", { class: "mono" }, found.format_name)]]));
      },
    });
  }

  async function again() {
    await call("refresh_directory", {});
    note("It is read again.");
    now();
  }

  function route() {
    return ask({
      title: "Find a route",
      act: "Find",
      wide: true,
      fields: [
        { name: "source", label: "From", required: true, hint: "Name of a machine." },
        { name: "target", label: "To", required: true },
      ],
      run: async (values) => {
        const found = await call("show_route", { source: values["source"], target: values["target"] });
        return h("div", {}, way([values["source"], ...found.steps.map((one) => one.target)]), h("ol", { id: "route" }, found.steps.map((one) => h("li", {}, `${one.source} to ${one.target}: ${one.rule}`))));
      },
    });
  }
}

/** What a change does, or did. @param {Changes} found */
function changesOf(found) {
  if (!found.changes.length) return h("p", { class: "notice", id: "changes" }, "Nothing changes.");
  return h("ul", { class: "notice", id: "changes" }, found.changes.slice(0, SHOWN).map((one) => h("li", {}, `${one.kind} ${one.name}: ${one.change}`, one.fields.map((field) => `; ${field.field}: ${field.before} → ${field.after}`), one.named_by.length > 0 && `; named by ${one.named_by.join(", ")}${one.left_off ? ` and ${one.left_off} more` : ""}`)));
}
