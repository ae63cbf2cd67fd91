// The numbers as a table: made here and only while it is open, so that it costs neither the server nor a change.

import { exact } from "./input.js";

// more than these at once would be slow, and nobody reads them
const ROWS = 64;
const COLUMNS = 32;

export class Table {
  constructor(view, details) {
    Object.assign(this, { view, details, picked: null, start: { row: 0, column: 0 } });
    details.addEventListener("toggle", () => this.show());
  }

  // What the reader has picked, or else the tile that is enlarged, or pinned.
  get tile() {
    const { scene, enlarged, pin } = this.view;
    const tile = this.picked ?? enlarged ?? pin?.head ?? 0;
    return tile < scene.heads ? tile : 0;
  }

  // Follows the picture while it is open.
  show() {
    if (!this.details.open || !this.view.scene) return;
    const { scene } = this.view;
    if (!this.parts) this.build();
    const { start } = this;
    if (start.row >= scene.queries) start.row = 0;
    if (start.column >= scene.keys) start.column = 0;
    const [row, column] = names(scene);
    this.parts.seen.textContent = scene.seen;
    options(this.parts.tile, scene.titles.map((title, tile) => [tile, title]), this.tile);
    options(this.parts.row, ranges(row, scene.queries, ROWS), start.row);
    options(this.parts.column, ranges(column, scene.keys, COLUMNS), start.column);
    const { sheet } = this.parts;
    sheet.replaceChildren(this.table());
    sheet.setAttribute("aria-label", sheet.querySelector("caption").textContent);
  }

  build() {
    const seen = made("p", "seen");
    const choices = made("div", "choices");
    const sheet = made("div", "sheet");
    sheet.tabIndex = 0; // it scrolls, by keyboard too
    sheet.setAttribute("role", "group");
    this.parts = { seen, sheet };
    for (const [name, label, take] of [
      ["tile", "Picture", (value) => (this.picked = value)],
      ["row", "Rows", (value) => (this.start.row = value)],
      ["column", "Columns", (value) => (this.start.column = value)],
    ]) {
      const select = (this.parts[name] = made("select", name));
      select.onchange = () => (take(Number(select.value)), this.show());
      const around = made("label", "", label);
      around.append(select);
      choices.append(around);
    }
    this.details.append(seen, choices, sheet);
  }

  table() {
    const { scene } = this.view;
    const { tile, start } = this;
    const [row, column] = names(scene);
    const [lastRow, lastColumn] = [Math.min(start.row + ROWS, scene.queries), Math.min(start.column + COLUMNS, scene.keys)];
    const table = made("table");
    const all = (from, to) => (to - from > 1 ? `${from} to ${to - 1}` : from);
    const what = `${scene.titles[tile]}, ${scene.numberName}: ${row} ${all(start.row, lastRow)}, ${column} ${all(start.column, lastColumn)}`;
    table.append(made("caption", "", what));
    const head = table.createTHead().insertRow();
    head.append(made("td"));
    for (let key = start.column; key < lastColumn; key++) head.append(header("col", `${column} ${scene.column(key)}`));
    const body = table.createTBody();
    for (let query = start.row; query < lastRow; query++) {
      const line = body.insertRow();
      line.append(header("row", `${row} ${scene.row(query)}`));
      for (let key = start.column; key < lastColumn; key++) {
        const cell = { head: tile, query, key };
        const word = scene.isBlank(cell) ? "blank" : scene.isMasked(cell) ? "masked" : "";
        line.append(made("td", word, word || exact(scene.weight(cell))));
      }
    }
    return table;
  }
}

// What a row and a column are called.
const names = (scene) => [scene.pair[0], scene.pair[2] || scene.columnsName];

function ranges(name, count, size) {
  const starts = Array.from({ length: Math.ceil(count / size) }, (_, i) => i * size);
  return starts.map((start) => [start, `${name} ${start} to ${Math.min(start + size, count) - 1}`]);
}

// Where there is nothing to choose, nothing is asked.
function options(select, choices, chosen) {
  const key = JSON.stringify(choices);
  if (select.dataset.choices !== key) {
    select.replaceChildren(...choices.map(([value, text]) => Object.assign(made("option", "", text), { value })));
    select.dataset.choices = key;
  }
  select.value = chosen;
  select.parentElement.hidden = choices.length < 2;
}

function header(scope, text) {
  const cell = made("th", "", text);
  cell.scope = scope;
  return cell;
}

function made(tag, name = "", text = "") {
  return Object.assign(document.createElement(tag), { className: name, textContent: text });
}
