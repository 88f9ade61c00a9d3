// What is done with users, tokens and certificates. Each asks before it acts.

import { ApiError, call } from "./api.js";
import { contentOf, download } from "./bytes.js";
import { ask, note } from "./dialogs.js";
import { h } from "./dom.js";

/** @typedef {import("../types.js").UserJson} User */
/** @typedef {NonNullable<User["role"]>} Role */
/** @typedef {import("./dialogs.js").Field} Field */

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
const DOOR_WORDS = { http: "this console and the API (http)", rpc: "programs of Windows (rpc)", ncp: "clients of NetWare (ncp)" };

/** @param {User | null} user  @returns {Field[]} */
function fields(user) {
  return [
    { name: "administrator", label: "Administrator", kind: "checkbox", value: user?.administrator ?? false, hint: "Has all rights on all queues, as far as the role goes. Others see only queues on which they have rights: grant them on the page of a queue." },
    { name: "role", label: "Role", kind: "select", options: [["", "none: tokens decide"], ...ROLES], value: user?.role ?? "", hint: "A limit, which gives no rights itself. An administrator with the role look sees the counts of all queues and no bodies." },
    .../** @type {Field[]} */ (DOORS.map((door) => ({ name: door, label: `The password opens ${DOOR_WORDS[door]}`, kind: "checkbox", value: user ? user.doors.includes(door) : door === "http" }))),
  ];
}

/** @param {import("../lib/dialogs.js").Values} values */
function given(values) {
  return { administrator: Boolean(values["administrator"]), role: /** @type {Role | null} */ (values["role"] || null), doors: DOORS.filter((door) => values[door]) };
}

/** @param {() => void} done */
export function create(done) {
  return ask({
    title: "Create a user",
    act: "Create",
    fields: [{ name: "name", label: "Name", required: true, length: 64 }, { name: "password", label: "Password", kind: "password", hint: "Empty: only tokens give access." }, ...fields(null)],
    run: async (values) => {
      await call("add_user", {}, { ...given(values), name: values["name"], password: values["password"] || null });
      note(`${values["name"]} is there.`);
      done();
    },
  });
}

/** @param {User} user  @param {() => void} done */
export function change(user, done) {
  return ask({
    title: "Change the user",
    text: `${user.name}. Open sessions of the user end.`,
    act: "Save",
    fields: [...fields(user), { name: "disabled", label: "Disabled", kind: "checkbox", value: user.disabled }],
    run: async (values) => {
      await call("set_user", { name: user.name }, { ...given(values), disabled: Boolean(values["disabled"]) });
      note("Saved.");
      done();
    },
  });
}

/** @param {User} user  @param {() => void} done */
export function password(user, done) {
  return ask({
    title: "Set the password",
    text: user.name,
    act: "Set",
    fields: [{ name: "password", label: "New password", kind: "password", required: true }],
    run: async (values) => {
      await call("set_password", { name: user.name }, { password: values["password"] });
      note("The password is set.");
      done();
    },
  });
}

/** @param {User} user  @param {() => void} done */
export function remove(user, done) {
  return ask({
    title: "Delete the user",
    text: h("p", {}, h("code", {}, user.name), " goes, with all tokens and certificates. Open sessions of the user end."),
    act: "Delete",
    danger: true,
    run: async () => {
      await call("delete_user", { name: user.name });
      note("Deleted.");
      done();
    },
  });
}

/** @param {() => void} done  @param {string} [user] */
export function createToken(done, user = "administrator") {
  return ask({
    title: "Create a token",
    act: "Create",
    fields: [
      { name: "user", label: "User", value: user, required: true },
      { name: "role", label: "Role", kind: "select", options: ROLES, value: "look" },
      { name: "queues", label: "Queues", hint: "Empty: all. Else PATTERN=RIGHTS; several have a semicolon between them." },
      { name: "expires", label: "Expires", hint: "Empty: never. Else a date such as 2027-01-31." },
    ],
    run: async (values) => {
      const queues = String(values["queues"]).split(";").map((one) => one.trim()).filter(Boolean);
      const made = await call("create_token", {}, { user: values["user"], role: /** @type {Role} */ (values["role"]), queues, expires: values["expires"] || null });
      done();
      return h("div", { class: "notice ok" }, h("p", {}, "Copy the token now: it cannot be shown again."), h("code", { id: "new-token" }, made.token));
    },
  });
}

/** @param {string} id  @param {() => void} done */
export function revoke(id, done) {
  return ask({
    title: "Revoke the token",
    text: h("p", {}, h("code", {}, id), " is refused from now on, and its sessions end."),
    act: "Revoke",
    danger: true,
    run: async () => {
      await call("revoke_token", { id });
      note("Revoked.");
      done();
    },
  });
}

/** @param {() => void} done  @param {string} [user] */
export function makeKeys(done, user = "") {
  return ask({
    title: "Make keys",
    text: "A key pair and an internal certificate, to sign messages with.",
    act: "Make",
    fields: [{ name: "user", label: "User", value: user, hint: "Empty: this queue manager." }, { name: "days", label: "Days", kind: "number", min: 1, max: 36500, value: 3650 }],
    run: async (values) => {
      await call("make_keys", {}, { user: values["user"] || null, ...(values["days"] ? { days: values["days"] } : {}) });
      note("The keys are made.");
      done();
    },
  });
}

/** @param {string} id  @param {string} owner  @param {() => void} done */
export function removeCertificate(id, owner, done) {
  return ask({
    title: "Delete the certificate",
    text: h("p", {}, "Messages that ", h("code", {}, owner), " signs with it are no longer accepted as signed."),
    act: "Delete",
    danger: true,
    run: async () => {
      await call("remove_certificate", { id });
      note("Deleted.");
      done();
    },
  });
}

/** Ends what a user has open, without a change of what the user may do. @param {User} user  @param {() => void} done */
export function endSessions(user, done) {
  return ask({
    title: "End the sessions",
    text: h("p", {}, "All sessions and waiting requests of ", h("code", {}, user.name), " end, in the console and of programs. Tokens and password stay: the user can sign in again. To keep the user out, disable the user."),
    act: "End them",
    danger: true,
    run: async () => {
      await call("set_user", { name: user.name }, {});
      note("The sessions have ended.");
      done();
    },
  });
}

/** @param {string} user  @param {() => void} done */
export function importCertificate(user, done) {
  return ask({
    title: "Import a certificate",
    text: h("p", {}, "Messages signed with it are from ", h("code", {}, user), "."),
    act: "Import",
    fields: [
      { name: "file", label: "File", kind: "file", required: true, hint: "PEM, DER or PKCS #12. A private key in it is kept, sealed, to sign with." },
      { name: "password", label: "Password of the file", kind: "password", hint: "Empty: it has none." },
    ],
    run: async (values) => {
      await call("import_certificate", { name: user }, { file: await contentOf(values["file"]), password: values["password"] || null });
      note("The certificate is imported.");
      done();
    },
  });
}

/** @param {() => void} done */
export function trust(done) {
  return ask({
    title: "Trust keys of another queue manager",
    text: "Their messages can be verified here, and encrypted for them.",
    act: "Trust",
    fields: [
      { name: "file", label: "File", kind: "file", required: true, hint: "What posthouse cert export or Save our keys wrote there; or a certificate." },
      { name: "sid", label: "SID of the user", hint: "For the certificate of a user of another system." },
      { name: "guid", label: "GUID of the queue manager", hint: "For a certificate or MQDSPUBLICKEYS of Windows." },
      { name: "name", label: "Computer name", hint: "Goes with the GUID." },
    ],
    run: async (values) => {
      const made = await call("trust_certificate", {}, await trusted(values));
      note(`${made.owner} is trusted.`);
      done();
    },
  });
}

/**
 * @param {import("./dialogs.js").Values} values
 * @returns {Promise<import("../types.js").CertificateTrustBody>}
 */
async function trusted(values) {
  const file = /** @type {File} */ (values["file"]);
  const content = await contentOf(file);
  if (values["sid"]) return { sid: values["sid"], certificate: content };
  if (values["guid"] || values["name"]) {
    const size = new DataView(await file.slice(0, 4).arrayBuffer());
    const isKeys = size.byteLength === 4 && size.getUint32(0, true) === file.size; // MQDSPUBLICKEYS begins with its size
    return { guid: values["guid"], name: values["name"], ...(isKeys ? { public_keys: content } : { certificate: content }) };
  }
  try {
    const { sid, guid, name, certificate, public_keys } = JSON.parse(await file.text());
    if (sid) return { sid, certificate };
    if (guid) return { guid, name, certificate: certificate || null, public_keys: public_keys || null };
  } catch {
    // it is none of ours
  }
  throw new ApiError(0, "", "the file does not name its owner", "Give the SID of a user, or GUID and computer name of a queue manager.");
}

/** Gives the user the public keys of this queue manager, for others to trust. */
export async function saveKeys() {
  const keys = await call("export_keys", {});
  download(`${keys.name}.json`, [`${JSON.stringify(keys)}\n`], "application/json");
}
