// The one way into the document: texts enter as text, never as markup.

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */
/** @typedef {string | number | boolean | null | undefined | ((event: any) => void)} Value */
/** @typedef {Record<string, Value>} Attributes */

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "open", "indeterminate"]);
const REFUSED = new Set(["style", "srcdoc", "formaction", "action", "src"]);

/**
 * An element. Attributes that begin with "on" are functions; links lead into the console only.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, attributes = {}, ...children) {
  return /** @type {any} */ (filled(document.createElement(tag), attributes, children));
}

/**
 * An element of a drawing.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function s(tag, attributes = {}, ...children) {
  return /** @type {any} */ (filled(document.createElementNS(SVG, tag), attributes, children));
}

const LONG = /\S{29}/; // a word that would make its column too wide
const SHORT = /^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|[\d,.]+ \S{1,3}( [\d]+ \S{1,3})?)$/; // a time, or a figure with its unit

/** A cell of a table. Only cells with very long words break inside of words; times and figures do not break at all. @param {Attributes} attributes  @param {...Child} children */
export function cell(attributes, ...children) {
  const made = h("td", attributes, ...children);
  made.classList.toggle("long", LONG.test(made.textContent ?? ""));
  made.classList.toggle("short", SHORT.test(made.textContent ?? ""));
  return made;
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  append(element, children);
  return element;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {Value} value
 */
function set(element, name, value) {
  if (typeof value === "function") {
    element.addEventListener(name.slice(2), value);
  } else if (name.startsWith("on") || REFUSED.has(name)) {
    throw new TypeError(`the attribute ${name} is not for texts`);
  } else if (name === "href" && !/^(#|blob:)/.test(String(value))) {
    throw new TypeError("links lead into the console only");
  } else if (PROPERTIES.has(name) && name in element) {
    Reflect.set(element, name, value ?? "");
  } else if (value === true) {
    element.setAttribute(name, "");
  } else if (value !== false && value !== null && value !== undefined) {
    element.setAttribute(name, String(value));
  }
}

/**
 * @param {Element | DocumentFragment} element
 * @param {Child} child
 */
export function append(element, child) {
  if (Array.isArray(child)) {
    for (const one of child) append(element, one);
  } else if (child instanceof Node) {
    element.append(child);
  } else if (child !== null && child !== undefined && child !== false) {
    element.append(String(child));
  }
}

/**
 * Puts other children into an element. A field or link inside keeps the focus if the new children
 * have one with the same `data-focus`.
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  const focused = document.activeElement;
  const mark = element.contains(focused) ? focused?.getAttribute("data-focus") : null;
  element.replaceChildren();
  append(element, children);
  if (mark) {
    const again = [...element.querySelectorAll("[data-focus]")].find((one) => one.getAttribute("data-focus") === mark);
    if (again instanceof HTMLElement || again instanceof SVGElement) again.focus({ preventScroll: true });
  }
}

/**
 * Fills an element again only where what it shows has changed.
 * @param {Element & {shown?: string}} element
 * @param {unknown} what
 * @param {() => Child} build
 */
export function refresh(element, what, build) {
  const text = JSON.stringify(what);
  if (element.shown === text) return;
  element.shown = text;
  fill(element, build());
}
