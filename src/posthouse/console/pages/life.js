// The life of a message by its identifier, also when it has left, also over other queue managers.

import { to } from "../lib/address.js";
import { call } from "../lib/api.js";
import { problem } from "../lib/dialogs.js";
import { fill, h } from "../lib/dom.js";
import { lifeOf } from "../lib/life.js";

/** @type {import("../lib/page.js").Page} */
export const page = { name: "life", title: "Life of a message", role: "look", key: "l", show };

/** @param {import("../lib/page.js").Context} context */
function show({ main, path, query, signal }) {
  const id = path[0] ?? "";
  const field = h("input", { "aria-label": "Identifier", placeholder: "Identifier: guid\\ordinal", value: id, id: "identifier", "data-filter": "", autocomplete: "off", spellcheck: "false" });
  const peers = h("input", { type: "checkbox", id: "peers", checked: query.get("peers") === "yes" });
  const answer = h("section", { class: "card", "aria-label": "Life" });
  const apply = (/** @type {Event} */ event) => {
    event.preventDefault();
    const target = to("life", field.value.trim() ? [field.value.trim()] : [], { peers: peers.checked ? "yes" : "" });
    if (target === location.hash) void load();
    else location.hash = target;
  };

  async function load() {
    if (!id) {
      fill(answer, h("div", { class: "empty" }, "Write the identifier of a message, as its page and posthouse message find show it."));
      return;
    }
    fill(answer, h("div", { class: "empty" }, "Asking…"));
    try {
      fill(answer, lifeOf(await call("explain_message", { id, peers: peers.checked }, null, { signal })));
    } catch (error) {
      if (!signal.aborted) fill(answer, problem(error));
    }
  }

  main.append(
    h("div", { class: "heading" }, h("h1", {}, "Life of a message")),
    h("form", { class: "toolbar", onsubmit: apply }, field, h("label", { class: "way", for: "peers" }, peers, "Ask other queue managers"), h("button", { type: "submit", class: "primary" }, "Show")),
    answer,
  );
  void load();
}
