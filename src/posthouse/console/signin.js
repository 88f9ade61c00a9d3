// The page before all others: a token, or a user's password.

import { signIn } from "./lib/api.js";
import { problem } from "./lib/dialogs.js";
import { fill, h } from "./lib/dom.js";
import { icon } from "./lib/icons.js";

/**
 * @param {HTMLElement} place
 * @param {unknown} why  the last session ended, if it did
 * @param {(session: import("./lib/api.js").Session) => void} done
 */
export function showSignIn(place, why, done) {
  document.title = "Sign in · Posthouse";
  const answer = h("div", { "aria-live": "polite" }, why ? problem(why) : null);
  const token = h("input", { id: "token", name: "token", type: "password", autocomplete: "off", spellcheck: "false", placeholder: "pht_…" });
  const user = h("input", { id: "user", name: "user", autocomplete: "username", spellcheck: "false" });
  const password = h("input", { id: "password", name: "password", type: "password", autocomplete: "current-password" });
  const byToken = h("div", { class: "fields" }, h("div", { class: "field" }, h("label", { for: "token" }, "Token"), token));
  const byPassword = h(
    "div",
    { class: "fields", hidden: true },
    h("div", { class: "field" }, h("label", { for: "user" }, "User"), user),
    h("div", { class: "field" }, h("label", { for: "password" }, "Password"), password),
  );
  /** @param {boolean} withToken */
  const choose = (withToken) => {
    byToken.hidden = !withToken;
    byPassword.hidden = withToken;
    (withToken ? token : user).focus();
  };
  const way = (/** @type {string} */ id, /** @type {string} */ text, /** @type {boolean} */ withToken) =>
    h("label", { class: "way", for: id }, h("input", { type: "radio", name: "way", id, checked: withToken, onchange: () => choose(withToken) }), text);
  const go = h("button", { type: "submit", class: "primary" }, "Sign in");
  const form = h(
    "form",
    {
      class: "card sign-in",
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        go.disabled = true;
        fill(answer);
        try {
          const given = byPassword.hidden ? { token: token.value.trim() } : { user: user.value.trim(), password: password.value };
          const session = await signIn(given);
          token.value = password.value = "";
          done(session);
        } catch (error) {
          fill(answer, problem(error));
          go.disabled = false;
        }
      },
    },
    h("h1", {}, icon("messages"), "Posthouse"),
    answer,
    h("fieldset", {}, h("legend", {}, "Sign in with"), way("by-token", "a token", true), way("by-password", "user and password", false)),
    byToken,
    byPassword,
    go,
    h("p", { class: "hint" }, "A token is made on the server's machine: ", h("code", {}, "posthouse token create --role operate"), ". Its role is how far you reach here; a password reaches as far as ", h("code", {}, "operate"), "."),
  );
  fill(place, h("main", { class: "entrance", id: "main" }, form));
  token.focus();
}
