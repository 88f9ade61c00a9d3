// Questions to the user: dialogs with fields, and short notes of what was done.

import { advice } from "./advice.js";
import { ApiError } from "./api.js";
import { fill, h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * What went wrong, with cause and remedy.
 * @param {unknown} error
 */
export function problem(error) {
  const known = error instanceof ApiError;
  const reason = known ? error.reason : `the console failed: ${error instanceof Error ? error.message : String(error)}`;
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    h("strong", {}, advice(capital(reason))),
    known && error.code && h("span", { class: "code" }, error.code),
    known && error.remedy && h("p", {}, advice(error.remedy)),
  );
}

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** A short note of what was done. @param {string} text */
export function note(text) {
  const place = document.getElementById("notes");
  const one = h("div", { class: "toast" }, text);
  place?.append(one);
  setTimeout(() => one.remove(), 6000);
}

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {string} label
 * @property {"text" | "number" | "checkbox" | "select" | "textarea" | "password" | "file"} [kind]
 * @property {string | number | boolean | null} [value]
 * @property {Array<string | [string, string]>} [options]
 * @property {string} [hint]
 * @property {boolean} [required]
 * @property {number} [min]
 * @property {number} [max]
 * @property {number} [length]  most characters
 * @property {[string, string[]]} [when]  shown while another field has one of these values
 */

/** @typedef {Record<string, any>} Values */

/** @param {Field} field  @param {string} text */
function wholeNumber({ label, min = -Infinity, max = Infinity }, text) {
  if (!text) return null;
  const value = Number(text);
  if (!/^-?\d+$/.test(text) || value < min || value > max) {
    const bounds = Number.isFinite(max) ? ` from ${min} to ${max}` : Number.isFinite(min) ? `, ${min} or more` : "";
    throw new ApiError(0, "", `${label}: ${text} does not fit`, `Write a whole number${bounds}, without a unit.`);
  }
  return value;
}

/**
 * The fields of a form, and how to read them.
 * @param {Field[]} fields
 */
export function form(fields) {
  /** @type {Map<string, HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>} */
  const inputs = new Map();
  const rows = fields.map((field) => {
    const kind = field.kind ?? "text";
    const id = `field-${field.name}`;
    const shared = { id, name: field.name, required: field.required ?? false, "aria-describedby": field.hint ? `${id}-hint` : null };
    /** @type {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} */
    let input;
    if (kind === "select") {
      input = h(
        "select",
        shared,
        (field.options ?? []).map((option) => {
          const [value, text] = Array.isArray(option) ? option : [option, option];
          return h("option", { value, selected: value === String(field.value ?? "") }, text);
        }),
      );
    } else if (kind === "textarea") {
      input = h("textarea", { ...shared, rows: 8, spellcheck: "false" });
      input.value = String(field.value ?? "");
    } else {
      input = h("input", {
        ...shared,
        type: kind === "number" ? "text" : kind, // fields of type number drop letters without a word
        inputmode: kind === "number" ? "numeric" : null,
        maxlength: field.length,
        autocomplete: kind === "password" ? "new-password" : "off",
        spellcheck: "false",
      });
      if (kind === "checkbox") input.checked = Boolean(field.value);
      else if (kind !== "file") input.value = field.value === null || field.value === undefined ? "" : String(field.value);
    }
    inputs.set(field.name, input);
    const label = h("label", { for: id }, field.label);
    const hint = field.hint && h("span", { class: "hint", id: `${id}-hint` }, field.hint);
    return kind === "checkbox" ? h("div", { class: "field check" }, input, label, hint) : h("div", { class: "field" }, label, input, hint);
  });
  fields.forEach(({ when }, place) => {
    const [other, row] = [inputs.get(when?.[0] ?? ""), rows[place]];
    if (!when || !other || !row) return;
    const follow = () => { row.hidden = !when[1].includes(other.value); };
    other.addEventListener("change", follow);
    follow();
  });
  /** @returns {Values} */
  const read = () =>
    Object.fromEntries(
      [...inputs].map(([name, input]) => {
        if (input instanceof HTMLInputElement && input.type === "checkbox") return [name, input.checked];
        if (input instanceof HTMLInputElement && input.type === "file") return [name, input.files?.[0] ?? null];
        const field = fields.find((one) => one.name === name);
        return [name, field?.kind === "number" ? wholeNumber(field, input.value.trim()) : input.value];
      }),
    );
  return { rows, read, inputs };
}

/**
 * Asks for something and does it; stays open with the reason where that is refused.
 * @param {object} options
 * @param {string} options.title
 * @param {Child} [options.text]
 * @param {Field[]} [options.fields]
 * @param {string} options.act  what the button says
 * @param {boolean} [options.danger]
 * @param {boolean} [options.wide]
 * @param {(values: Values, progress: (shown: Child) => void, confirmed: boolean) => Promise<Child | {again: string, shown: Child, danger?: boolean, nothing?: boolean} | void>} options.run
 *   What it returns is shown, and the dialog stays open; with `again` the button has that text, and
 *   runs it once more. Then it is `confirmed`, unless there is `nothing` to confirm, or anything was
 *   typed meanwhile: that makes it the first button again.
 * @returns {Promise<boolean>}  whether it was done
 */
export function ask({ title, text, fields = [], act, danger = false, wide = false, run }) {
  return new Promise((resolve) => {
    const { rows, read } = form(fields);
    const answer = h("div", { class: "answer", "aria-live": "polite" });
    const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, act);
    const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
    let done = false;
    /** @type {string | null} */
    let looked = null; // the values that were shown with `again`
    const begin = () => {
      looked = null;
      go.textContent = act;
      go.className = danger ? "danger" : "primary";
    };
    const dialog = h(
      "dialog",
      { class: wide ? "wide" : "", "aria-labelledby": "dialog-title", onclose: () => { dialog.remove(); resolve(done); } },
      h(
        "form",
        {
          oninput: () => { if (!done) begin(); }, // what was counted was for other values
          onsubmit: async (/** @type {Event} */ event) => {
            event.preventDefault();
            go.disabled = true;
            fill(answer);
            try {
              const values = read();
              const asked = JSON.stringify(values);
              const shown = await run(values, (child) => fill(answer, child), looked === asked);
              if (shown && typeof shown === "object" && "again" in shown) {
                fill(answer, shown.shown);
                looked = shown.nothing ? null : asked;
                go.textContent = shown.again;
                go.className = shown.danger ? "danger" : "primary";
                return;
              }
              done = true;
              if (shown) {
                fill(answer, shown);
                cancel.textContent = "Close";
                go.hidden = true;
              } else {
                dialog.close();
              }
            } catch (error) {
              fill(answer, problem(error));
            } finally {
              go.disabled = false;
            }
          },
        },
        h("h2", { id: "dialog-title" }, title),
        text && h("div", { class: "text" }, text),
        h("div", { class: "fields" }, rows),
        answer,
        h("div", { class: "buttons" }, cancel, go),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}

/**
 * Shows something in a dialog.
 * @param {string} title
 * @param {...Child} content
 */
export function show(title, ...content) {
  const dialog = h(
    "dialog",
    { class: "wide", "aria-labelledby": "dialog-title", onclose: () => dialog.remove() },
    h("h2", { id: "dialog-title" }, title),
    content,
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Close")),
  );
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
