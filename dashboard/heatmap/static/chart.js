// A line chart: a Plotly figure as Python made it, in the page's colours. It stays mounted.

import { cssToRgb } from "./colour.js";
import { downloads } from "./download.js";
import { clear, mounting } from "./mount.js";

// readable on white and on the dark background, and told apart with every common colour blindness
const COLOURS = ["#2f87d8", "#d9752b", "#1f9d74", "#8a63d2"];

class Chart {
  constructor(parent) {
    this.root = parent.querySelector(".chart");
    this.markup = this.root.outerHTML; // before anything is drawn into it
    this.plot = this.root.querySelector(".plot");
    this.resizing = new ResizeObserver(() => this.width !== this.plot.clientWidth && this.layOut());
    this.resizing.observe(this.plot);
  }

  leave() {
    this.resizing.disconnect();
    clear(this, this.plot);
  }

  show({ data }) {
    Object.assign(this, JSON.parse(new TextDecoder().decode(data)));
    if (!this.buttons) this.addButtons();
    this.readTheme();
    this.say("");
    this.layOut();
    this.plot.setAttribute("aria-label", this.summary);
    this.root.dataset.file = this.file; // what is drawn now, for whoever waits for it
  }

  readTheme() {
    const style = getComputedStyle(this.root);
    const value = (name) => style.getPropertyValue(name).trim();
    const [text, background] = [value("--st-text-color"), value("--st-background-color")];
    const between = (share) => {
      const [from, to] = [cssToRgb(background), cssToRgb(text)];
      return `rgb(${from.map((c, i) => Math.round(c + share * (to[i] - c)))})`;
    };
    this.theme = { text, background, font: value("--st-font"), pale: between(0.72), line: between(0.12) };
    this.theme.scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; // large type for a projector
  }

  layOut() {
    this.width = this.plot.clientWidth;
    if (!this.width || !this.figure) return;
    const { data, layout } = this.figure;
    const { text, font, pale, line, scale } = this.theme;
    const title = { font: { size: 14 * scale, color: pale }, standoff: 8 };
    const axis = (own = {}, grid) => ({
      ...{ color: pale, gridcolor: line, showgrid: grid, zeroline: false, tickfont: { size: 12 * scale }, automargin: true },
      autotickangles: [0, -40], // so that a steep label never runs out at the right
      ...own,
      title: { ...title, ...own.title },
    });
    const whole = {
      ...{ width: this.width, colorway: COLOURS, paper_bgcolor: "rgba(0, 0, 0, 0)", plot_bgcolor: "rgba(0, 0, 0, 0)" },
      ...{ font: { family: font || "sans-serif", color: text, size: 12 * scale }, uirevision: "the reader's zoom" },
      // a finger on the chart should scroll the page
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      ...layout,
      xaxis: axis(layout.xaxis, false),
      yaxis: axis(layout.yaxis, true),
    };
    this.drawn = Plotly.react(this.plot, data, whole, { displayModeBar: false, showTips: false, responsive: false });
  }

  // Outside of the plot, which is one image to whoever does not see it.
  addButtons() {
    this.buttons = downloads(this, this.alone).map(({ name, title, icon, click }) => {
      const button = Object.assign(document.createElement("button"), { type: "button", title, onclick: click });
      button.dataset.format = name;
      button.setAttribute("aria-label", title);
      const { width, height, path, transform = "" } = icon;
      button.innerHTML = `<svg viewBox="0 0 ${width} ${height}" aria-hidden="true"><path d="${path}" transform="${transform}"/></svg>`;
      return button;
    });
    this.root.querySelector(".bar").append(...this.buttons);
  }

  // What is drawn now, for a file.
  picture() {
    const { root, plot, theme, summary, file, markup, figure } = this;
    const { clientWidth: width, clientHeight: height } = plot;
    const message = () => new TextEncoder().encode(JSON.stringify({ figure, summary, file, alone: true }));
    const nothing = () => {};
    return {
      ...{ root, plot, width, height, theme, summary, file, cells: 0, under: nothing, over: nothing },
      ...{ drawing: "chart.js", style: "chart.css", markup, message },
    };
  }

  say(text) {
    this.root.querySelector(".status").textContent = text;
  }
}

export const draw = mounting(Chart);
