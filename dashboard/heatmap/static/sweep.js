// Two small tables of buttons: how far each setting of a sweep gets. They stay mounted, so that a cell keeps the focus
// while others fill in.

import { Palette } from "./colour.js";
import { mounting } from "./mount.js";

const SHARES = { place: (share) => share };

class Sweep {
  constructor(parent) {
    this.root = parent.querySelector(".sweep");
    this.markup = this.root.outerHTML; // before anything is drawn into it
    this.buttons = new Map();
  }

  leave() {
    this.root.outerHTML = this.markup;
  }

  show({ data, setStateValue }) {
    const { tables, cells, stops, summary } = JSON.parse(new TextDecoder().decode(data));
    this.choose = (name) => setStateValue("chosen", `${name}#${Date.now()}`);
    this.palette ??= new Palette(stops);
    if (!this.buttons.size) this.root.append(...tables.map((table) => this.table(table)));
    for (const cell of cells) this.paint(this.buttons.get(cell.name), cell);
    this.root.setAttribute("aria-label", summary);
    this.root.dataset.filled = cells.filter(({ share }) => share !== null).length; // for whoever waits for it
  }

  table({ title, columns, rows }) {
    const header = (scope) => (text) => made("th", { scope, textContent: text });
    const row = ({ title: name, cells }) => made("tr", {}, header("row")(name), ...cells.map((cell) => made("td", {}, this.button(cell))));
    return made(
      "table",
      {},
      made("caption", { textContent: title }),
      made("thead", {}, made("tr", {}, made("td"), ...columns.map(header("col")))),
      made("tbody", {}, ...rows.map(row)),
    );
  }

  button(name) {
    const button = made("button", { type: "button", onclick: () => this.choose(name) });
    this.buttons.set(name, button);
    return button;
  }

  paint(button, { text, share, kind, says, isSet }) {
    const isLight = share !== null && this.palette.isLight(share, SHARES);
    Object.assign(button, { textContent: text, title: says, className: kind });
    button.setAttribute("aria-label", says);
    button.setAttribute("aria-pressed", String(isSet));
    button.style.background = share === null ? "" : `rgb(${this.palette.colour(share)})`;
    button.style.color = share === null ? "" : isLight ? "#000" : "#fff";
  }
}

function made(tag, properties = {}, ...inside) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...inside);
  return element;
}

export const draw = mounting(Sweep);
