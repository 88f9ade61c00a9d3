// Users, tokens and certificates: who gets in, as what, and until when.

import { call } from "../lib/api.js";
import { acting, actions, button, card, rows } from "../lib/cards.js";
import { ask, note } from "../lib/dialogs.js";
import { h, refresh } from "../lib/dom.js";
import { time } from "../lib/format.js";

/** @typedef {import("../types.js").UserJson} User */
/** @typedef {NonNullable<User["role"]>} Role */
/** @typedef {import("../lib/dialogs.js").Field} Field */

/** @type {import("../lib/page.js").Page} */
export const page = { name: "users", title: "Users", role: "administer", key: "u", show };

/** @type {Array<[string, string]>} */
const ROLES = [
  ["metrics", "metrics: figures only"],
  ["look", "look: all but the content of messages"],
  ["read", "read: also bodies"],
  ["operate", "operate: also send, receive, purge"],
  ["administer", "administer: everything"],
];
/** @type {Array<"http" | "rpc" | "ncp">} */
const DOORS = ["http", "rpc", "ncp"];

/** @param {import("../lib/page.js").Context} context */
function show({ main, poll, signal }) {
  const { answer, act } = acting();
  const users = h("div", {});
  const tokens = h("div", {});
  const certificates = h("div", {});
  main.append(
    h("div", { class: "heading" }, h("h1", {}, "Users"), button("Create a user", act(create), "create-user"), button("Create a token", act(createToken), "create-token"), button("Make keys", act(makeKeys), "make-keys")),
    answer,
    users,
    tokens,
    certificates,
  );
  const now = poll(5, async (polled) => {
    const asked = { polled, signal };
    const [people, passes, papers] = await Promise.all([call("list_users", {}, null, asked), call("list_tokens", {}, null, asked), call("list_certificates", {}, null, asked)]);
    refresh(users, people, () =>
      card(
        "Users",
        rows(
          ["User", "Role", "Password opens", "State", "Created", ""],
          people.users.map((one) => [
            one.name,
            one.administrator ? "administrator" : (one.role ?? "by token"),
            one.password ? one.doors.join(", ") : "nothing: there is no password",
            one.disabled ? h("span", { class: "badge warn" }, "disabled") : "",
            time(one.created_time),
            actions(button("Change", act(() => change(one)), `change ${one.name}`), button("Password", act(() => password(one)), `password ${one.name}`), button("Delete", act(() => remove(one)), `delete ${one.name}`)),
          ]),
        ),
      ),
    );
    refresh(tokens, passes, () =>
      card(
        "Tokens",
        rows(
          ["Token", "User", "Role", "Queues", "Expires", "Created", ""],
          passes.tokens.map((one) => [h("span", { class: "mono" }, one.id), one.user, one.role, one.queues.join(", ") || "all", time(one.expires) || "never", time(one.created_time), button("Revoke", act(() => revoke(one.id)), `revoke ${one.id}`)]),
        ),
      ),
    );
    refresh(certificates, papers, () =>
      card(
        "Certificates",
        rows(
          ["Owner", "Kind", "Subject", "Fingerprint", "Valid until", ""],
          papers.certificates.map((one) => [one.owner, one.kind, one.subject ?? "", h("span", { class: "mono" }, one.fingerprint ?? ""), time(one.not_after), button("Delete", act(() => removeCertificate(one.id, one.owner)), `certificate ${one.id}`)]),
        ),
      ),
    );
  });

  /** @param {User | null} user  @returns {Field[]} */
  function fields(user) {
    return [
      { name: "administrator", label: "Administrator", kind: "checkbox", value: user?.administrator ?? false },
      { name: "role", label: "Role", kind: "select", options: [["", "none: tokens decide"], ...ROLES], value: user?.role ?? "", hint: "The most that tokens and the password of this user give." },
      .../** @type {Field[]} */ (DOORS.map((door) => ({ name: door, label: `The password opens ${door}`, kind: "checkbox", value: user ? user.doors.includes(door) : door === "http" }))),
    ];
  }

  /** @param {import("../lib/dialogs.js").Values} values */
  function given(values) {
    return { administrator: Boolean(values["administrator"]), role: /** @type {Role | null} */ (values["role"] || null), doors: DOORS.filter((door) => values[door]) };
  }

  function create() {
    return ask({
      title: "Create a user",
      act: "Create",
      fields: [{ name: "name", label: "Name", required: true, length: 64 }, { name: "password", label: "Password", kind: "password", hint: "Empty: only tokens give access." }, ...fields(null)],
      run: async (values) => {
        await call("add_user", {}, { ...given(values), name: values["name"], password: values["password"] || null });
        note(`${values["name"]} is there.`);
        now();
      },
    });
  }

  /** @param {User} user */
  function change(user) {
    return ask({
      title: "Change the user",
      text: `${user.name}. Open sessions of the user end.`,
      act: "Save",
      fields: [...fields(user), { name: "disabled", label: "Disabled", kind: "checkbox", value: user.disabled }],
      run: async (values) => {
        await call("set_user", { name: user.name }, { ...given(values), disabled: Boolean(values["disabled"]) });
        note("Saved.");
        now();
      },
    });
  }

  /** @param {User} user */
  function password(user) {
    return ask({
      title: "Set the password",
      text: user.name,
      act: "Set",
      fields: [{ name: "password", label: "New password", kind: "password", required: true }],
      run: async (values) => {
        await call("set_password", { name: user.name }, { password: values["password"] });
        note("The password is set.");
        now();
      },
    });
  }

  /** @param {User} user */
  function remove(user) {
    return ask({
      title: "Delete the user",
      text: h("p", {}, h("code", {}, user.name), " goes, with all tokens and certificates."),
      act: "Delete",
      danger: true,
      run: async () => {
        await call("delete_user", { name: user.name });
        note("Deleted.");
        now();
      },
    });
  }

  function createToken() {
    return ask({
      title: "Create a token",
      act: "Create",
      fields: [
        { name: "user", label: "User", value: "administrator", required: true },
        { name: "role", label: "Role", kind: "select", options: ROLES, value: "look" },
        { name: "queues", label: "Queues", hint: "Empty: all. Else PATTERN=RIGHTS; several have a semicolon between them." },
        { name: "expires", label: "Expires", hint: "Empty: never. Else a date such as 2027-01-31." },
      ],
      run: async (values) => {
        const queues = String(values["queues"]).split(";").map((one) => one.trim()).filter(Boolean);
        const made = await call("create_token", {}, { user: values["user"], role: /** @type {Role} */ (values["role"]), queues, expires: values["expires"] || null });
        now();
        return h("div", { class: "notice ok" }, h("p", {}, "Copy the token now: it cannot be shown again."), h("code", { id: "new-token" }, made.token));
      },
    });
  }

  /** @param {string} id */
  function revoke(id) {
    return ask({
      title: "Revoke the token",
      text: h("p", {}, h("code", {}, id), " is refused from now on, and its sessions end."),
      act: "Revoke",
      danger: true,
      run: async () => {
        await call("revoke_token", { id });
        note("Revoked.");
        now();
      },
    });
  }

  function makeKeys() {
    return ask({
      title: "Make keys",
      text: "A key pair and an internal certificate, to sign messages with.",
      act: "Make",
      fields: [{ name: "user", label: "User", hint: "Empty: this queue manager." }, { name: "days", label: "Days", kind: "number", min: 1, max: 36500, value: 3650 }],
      run: async (values) => {
        await call("make_keys", {}, { user: values["user"] || null, ...(values["days"] ? { days: values["days"] } : {}) });
        note("The keys are made.");
        now();
      },
    });
  }

  /** @param {string} id  @param {string} owner */
  function removeCertificate(id, owner) {
    return ask({
      title: "Delete the certificate",
      text: h("p", {}, "Messages that ", h("code", {}, owner), " signs with it are no longer accepted as signed."),
      act: "Delete",
      danger: true,
      run: async () => {
        await call("remove_certificate", { id });
        note("Deleted.");
        now();
      },
    });
  }
}
