// A table that is updated in place: sorted, with columns to choose, rows to mark.

import { cell, fill, h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * @template Row
 * @typedef {object} Column
 * @property {string} name
 * @property {string} title
 * @property {(row: Row) => Child} show
 * @property {(row: Row) => string | number | boolean | null} [sort]
 * @property {boolean} [number]  figures stand at the right
 * @property {boolean} [optional]  not shown until it is chosen
 * @property {boolean} [fixed]  always shown
 */

/** @template Row */
export class Table {
  /**
   * @param {object} options
   * @param {string} options.name  under which the browser keeps sort and columns
   * @param {string} options.label  what the table holds, for screen readers
   * @param {Column<Row>[]} options.columns
   * @param {(row: Row) => string} options.key
   * @param {Child} [options.empty]
   * @param {(keys: Set<string>) => void} [options.marked]  rows can be marked
   * @param {(row: Row) => string} [options.naming]  what a row is called, for its mark
   * @param {boolean} [options.sortable]
   */
  constructor({ name, label, columns, key, empty = "Nothing here.", marked, naming, sortable = true }) {
    this.columns = columns;
    this.key = key;
    this.naming = naming ?? key;
    this.empty = empty;
    this.marked = marked;
    this.sortable = sortable;
    /** @type {Set<string>} */
    this.marks = new Set();
    /** @type {Row[]} */
    this.rows = [];
    /** @type {Map<string, {row: HTMLTableRowElement, shown: string}>} */
    this.known = new Map();
    this.store = `posthouse.table.${name}`;
    const kept = read(this.store);
    /** @type {string} */
    this.sorted = kept.sorted ?? "";
    /** @type {boolean} */
    this.down = kept.down ?? false;
    const optional = columns.filter((one) => one.optional).map((one) => one.name);
    /** @type {Set<string>} */
    this.hidden = new Set(kept.hidden ?? optional);
    this.head = h("thead", {});
    this.body = h("tbody", {});
    this.nothing = h("div", { class: "empty", hidden: true }, empty);
    this.element = h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
      h("table", {}, this.head, this.body),
      this.nothing,
    );
    this.drawHead();
  }

  get shownColumns() {
    return this.columns.filter((one) => !this.hidden.has(one.name));
  }

  /** The menu with which columns are chosen. */
  chooser() {
    return h(
      "details",
      { class: "menu" },
      h("summary", {}, "Columns"),
      h(
        "div",
        { class: "menu-items" },
        this.columns
          .filter((one) => !one.fixed)
          .map((one) =>
            h(
              "label",
              {},
              h("input", { type: "checkbox", checked: !this.hidden.has(one.name), onchange: (/** @type {any} */ event) => this.choose(one.name, event.target.checked) }),
              one.title,
            ),
          ),
      ),
    );
  }

  /** @param {string} name  @param {boolean} shown */
  choose(name, shown) {
    if (shown) this.hidden.delete(name);
    else this.hidden.add(name);
    this.keep();
    this.known.clear();
    this.drawHead();
    this.update(this.rows);
  }

  keep() {
    localStorage.setItem(this.store, JSON.stringify({ sorted: this.sorted, down: this.down, hidden: [...this.hidden] }));
  }

  drawHead() {
    const all = h("input", { type: "checkbox", "aria-label": "Mark all rows shown", onchange: (/** @type {any} */ event) => this.markAll(event.target.checked) });
    fill(
      this.head,
      h(
        "tr",
        {},
        this.marked && h("th", { class: "mark", scope: "col" }, all),
        this.shownColumns.map((one) => {
          const is = this.sorted === one.name;
          const label = one.sort && this.sortable ? h("button", { type: "button", class: "sort", "data-focus": `sort-${one.name}`, onclick: () => this.sortBy(one.name) }, one.title, h("span", { "aria-hidden": "true", class: "arrow" }, is ? (this.down ? "▾" : "▴") : "")) : one.title;
          return h("th", { class: one.number ? "number" : "", scope: "col", "aria-sort": is ? (this.down ? "descending" : "ascending") : null }, label);
        }),
      ),
    );
  }

  /** @param {string} name */
  sortBy(name) {
    this.down = this.sorted === name ? !this.down : false;
    this.sorted = name;
    this.keep();
    this.drawHead();
    this.update(this.rows);
  }

  /** @param {boolean} on */
  markAll(on) {
    this.marks = on ? new Set(this.rows.map(this.key)) : new Set();
    this.known.clear();
    this.update(this.rows);
    this.marked?.(this.marks);
  }

  unmark() {
    this.marks.clear();
    this.known.clear();
    this.drawHead();
    this.update(this.rows);
    this.marked?.(this.marks);
  }

  /** @param {Row[]} rows */
  inOrder(rows) {
    const column = this.sortable ? this.columns.find((one) => one.name === this.sorted) : undefined;
    const by = column?.sort;
    if (!by) return rows;
    const sign = this.down ? -1 : 1;
    return [...rows].sort((left, right) => sign * compare(by(left), by(right)));
  }

  /** Shows these rows; those that are the same stay as they are. @param {Row[]} rows */
  update(rows) {
    this.rows = rows;
    const before = this.known;
    this.known = new Map();
    const columns = this.shownColumns;
    const wanted = this.inOrder(rows).map((row) => {
      const key = this.key(row);
      const shown = JSON.stringify(row);
      const old = before.get(key);
      const line = old?.row ?? h("tr", { "data-key": key });
      if (old?.shown !== shown) {
        fill(
          line,
          this.marked && h("td", { class: "mark" }, h("input", { type: "checkbox", "data-focus": `mark-${key}`, checked: this.marks.has(key), "aria-label": `Mark ${this.naming(row)}`, onchange: (/** @type {any} */ event) => this.mark(key, event.target.checked) })),
          columns.map((one) => cell({ class: one.number ? "number" : "", "data-column": one.name }, one.show(row))),
        );
      }
      this.known.set(key, { row: line, shown });
      return line;
    });
    wanted.forEach((line, place) => {
      const there = this.body.children[place];
      if (there !== line) this.body.insertBefore(line, there ?? null);
    });
    while (this.body.children.length > wanted.length) this.body.lastElementChild?.remove();
    this.nothing.hidden = rows.length > 0;
  }

  /** @param {string} key  @param {boolean} on */
  mark(key, on) {
    if (on) this.marks.add(key);
    else this.marks.delete(key);
    this.marked?.(this.marks);
  }
}

/** @param {string} name */
function read(name) {
  try {
    return JSON.parse(localStorage.getItem(name) ?? "{}") ?? {};
  } catch {
    return {};
  }
}

/**
 * @param {string | number | boolean | null} left
 * @param {string | number | boolean | null} right
 */
function compare(left, right) {
  if (left === right) return 0;
  if (left === null) return -1;
  if (right === null) return 1;
  if (typeof left === "string" && typeof right === "string") return left.localeCompare(right, "en", { numeric: true, sensitivity: "base" });
  return left < right ? -1 : 1;
}
