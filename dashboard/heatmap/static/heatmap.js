// Every head in one plot: Plotly's axes, zoom, pan and colour bar over pixels painted here. It stays mounted:
// new numbers repaint the pixels and leave Plotly alone.

import { Palette, cssToRgb } from "./colour.js";
import { layOut, ticks } from "./grid.js";
import { Painter, Raster, axisMap } from "./paint.js";
import { decode } from "./scene.js";
import { describe, listen } from "./input.js";
import { LABEL, figure, marginFor, tickUpdate } from "./plot.js";
import { downloads } from "./download.js";
import { paintTitles } from "./titles.js";
import { Table } from "./table.js";
import { clear, mounting } from "./mount.js";

const PAGE_COLOURS = ["background", "secondary-background", "border", "primary", "green-text", "red-text"].map((name) => `--st-${name}-color`);

// what the axes, the colour bar or the titles show; other numbers alone repaint the pixels
const GEOMETRY = [
  ...["heads", "queries", "keys", "titles", "rowsName", "columnsName", "numberName", "kind", "low", "high", "infinite", "tallest"],
  ...["curve", "scale", "enlarged", "summary", "rowLabels", "columnLabels"],
];

// Plotly reads some markup in a text.
const literal = (text) => text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);

class View {
  constructor(parent) {
    this.root = parent.querySelector(".heads");
    this.markup = this.root.outerHTML; // before anything is drawn into it
    const part = (name) => this.root.querySelector(`.${name}`);
    this.parts = Object.fromEntries(
      ["readout", "all", "stage", "pixels", "plot", "marks", "titles", "tip", "spoken", "keys", "twin", "below"].map((name) => [name, part(name)]),
    );
    this.raster = new Raster();
    this.hovered = null;
    this.table = new Table(this, this.parts.twin);
    listen(this);
    this.resizing = new ResizeObserver(() => this.width !== this.parts.stage.clientWidth && this.layOut());
    this.resizing.observe(this.parts.stage);
  }

  leave() {
    this.resizing.disconnect();
    document.removeEventListener("fullscreenchange", this.onFullscreen);
    clear(this, this.parts.plot);
  }

  show({ data, setStateValue }) {
    this.setStateValue = setStateValue;
    const before = this.scene;
    const scene = (this.scene = decode(data, before));
    this.readTheme();
    if (!before || String(before.stops) !== String(scene.stops)) this.palette = new Palette(scene.stops);
    this.raster.fill(scene, this.palette);
    const kept = this.enlarged ?? null;
    this.enlarged = !scene.keepsEnlarged ? scene.enlarged : kept !== null && kept < scene.heads ? kept : null;
    this.pin = scene.pin;
    const same = GEOMETRY.every((name) => String(before?.[name]) === String(scene[name]));
    if (!before || this.themed || !same) this.layOut();
    else this.paintPixels();
    if (JSON.stringify(before?.pin) !== JSON.stringify(scene.pin)) this.mark();
    describe(this);
    this.table.show();
    if (before?.below !== scene.below) this.parts.below.innerHTML = scene.below;
    this.root.dataset.scene = scene.id; // what is drawn now, for whoever waits for it
  }

  get heads() {
    return this.enlarged === null ? [...Array(this.scene.heads).keys()] : [this.enlarged];
  }

  readTheme() {
    const style = getComputedStyle(this.root);
    const value = (name) => style.getPropertyValue(name).trim();
    const theme = { text: value("--st-text-color"), background: value("--st-background-color"), font: value("--st-font") };
    theme.scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; // large type for a projector
    this.themed = ["text", "background", "scale"].some((name) => this.theme?.[name] !== theme[name]);
    if (!this.themed) return;
    // Streamlit gives its colours to components only; the page's own style sheet wants them too
    for (const name of PAGE_COLOURS) document.documentElement.style.setProperty(name, value(name));
    const dark = cssToRgb(theme.background)[0] < 128;
    theme.maskedFill = dark ? "#23262f" : "#eceef2";
    theme.maskedLine = dark ? "#474c59" : "#c3c8d2";
    this.theme = theme;
  }

  layOut() {
    const { stage, plot } = this.parts;
    this.width = stage.clientWidth;
    if (!this.width || !this.scene) return;
    const { scene, heads } = this;
    const { scale } = this.theme;
    const longest = (labels) => Math.max(0, ...labels.map((label) => [...label].length));
    const signs = { rows: longest(scene.rowLabels), columns: longest(scene.columnLabels) };
    const margin = marginFor(this.width, scale, signs);
    const full = document.fullscreenElement === this.root;
    let height = full ? innerHeight - stage.offsetTop - margin.t - margin.b - 8 : null;
    const width = this.width - margin.l - margin.r;
    const aspect = Math.max(0.25, Math.min(1.5, scene.queries / scene.keys));
    if (!full && heads.length === 1) height = Math.min(width * aspect, Math.max(380, innerHeight - 270));
    if (!full && height && scene.tallest) height = Math.min(height, scene.tallest);
    const tokens = Math.max(scene.queries, scene.keys);
    const before = this.grid;
    const titled = this.longestTitle();
    this.grid = layOut({ heads: heads.length, tokens, width, height, aspect, tallest: scene.tallest ?? Infinity, titled, scale });
    const sameShape = before && before.columns === this.grid.columns && before.rows === this.grid.rows;
    const view = sameShape && this.view && this.drawnEnlarged === this.enlarged ? this.view : this.fullView();
    this.drawnEnlarged = this.enlarged;
    stage.style.height = `${this.grid.height + margin.t + margin.b}px`;
    const { data, layout, config } = figure(this, margin, view);
    this.laying = true;
    this.drawn = Plotly.react(plot, data, layout, { ...config, ...this.modebar() });
    this.laying = false;
    if (!this.bound) {
      this.bound = true;
      plot.on("plotly_relayout", () => this.moved());
      plot.on("plotly_relayouting", () => this.paint());
      plot.on("plotly_doubleclick", () => this.reset());
    }
    this.drawTitles();
    this.refreshTicks();
    this.paint();
  }

  // The width that the longest title takes.
  longestTitle() {
    const context = this.parts.marks.getContext("2d");
    context.font = `600 ${13 * this.theme.scale}px ${this.theme.font || "sans-serif"}`;
    return Math.max(...this.heads.map((head) => context.measureText(this.scene.titles[head]).width)) + 10;
  }

  fullView() {
    return { x: [0, this.grid.columns], y: [this.grid.rows, 0] };
  }

  modebar() {
    const { autoscale, home } = Plotly.Icons;
    return {
      modeBarButtons: [
        downloads(this, this.scene.alone),
        ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d"],
        // Plotly's own would go back to the view that the last layout began with, which may be a zoom
        [{ name: "reset", title: "Whole picture", icon: home, click: () => this.reset() }],
        [{ name: "full", title: "Full screen", icon: autoscale, click: () => this.toggleFullscreen() }],
      ],
    };
  }

  reset() {
    const { x, y } = this.fullView();
    Plotly.relayout(this.parts.plot, { "xaxis.range": x, "yaxis.range": y });
  }

  toggleFullscreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.root.requestFullscreen?.();
  }

  // After a zoom or pan by the reader.
  moved() {
    if (this.laying) return;
    const { xaxis, yaxis } = this.parts.plot._fullLayout;
    this.view = { x: [...xaxis.range], y: [...yaxis.range] };
    const full = this.fullView();
    if (String(this.view.x) === String(full.x) && String(this.view.y) === String(full.y)) this.view = null;
    this.refreshTicks();
    this.paint();
  }

  refreshTicks() {
    const update = tickUpdate(this);
    if (!update) return;
    this.laying = true;
    this.drawn = Plotly.relayout(this.parts.plot, update);
    this.laying = false;
  }

  ticksFor(axis, pixels) {
    const { grid, scene } = this;
    const horizontal = axis === "x";
    const tokens = horizontal ? scene.keys : scene.queries;
    const tiles = horizontal ? grid.columns : grid.rows;
    const extent = horizontal ? grid.tileX : grid.tileY;
    const range = this.view?.[axis] ?? this.fullView()[axis];
    const cell = (pixels / Math.abs(range[1] - range[0])) * (extent / tokens);
    const labels = horizontal ? scene.columnLabels : scene.rowLabels;
    const upright = horizontal && !labels.length;
    const room = this.theme.scale * (labels.length ? LABEL + 1 : upright ? 10 + 7 * String(tokens).length : 15);
    return ticks(tiles, horizontal ? 0 : 1 - extent, extent, tokens, cell, room, (token) => literal(scene.tick(labels, token)));
  }

  painter(context, ratio) {
    const { xaxis, yaxis } = this.parts.plot._fullLayout;
    const clip = { left: xaxis._offset, top: yaxis._offset, width: xaxis._length, height: yaxis._length };
    return new Painter(context, { grid: this.grid, x: axisMap(xaxis), y: axisMap(yaxis), clip, ratio });
  }

  fitted(canvas) {
    const { clientWidth, clientHeight } = this.parts.stage;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.round(clientWidth * ratio), Math.round(clientHeight * ratio)];
    const context = canvas.getContext("2d");
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    else context.setTransform(1, 0, 0, 1, 0, 0), context.clearRect(0, 0, width, height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return this.painter(context, ratio);
  }

  paint() {
    if (!this.grid) return;
    this.paintPixels();
    this.mark();
    this.placeTitles();
  }

  // All that new numbers change: marks and titles stay where they are.
  paintPixels() {
    this.fitted(this.parts.pixels).paint(this.scene, this.heads, this.raster, this.palette, this.theme);
  }

  mark() {
    this.fitted(this.parts.marks).outlines(this.scene, this.heads, this.hovered, this.pin);
    this.parts.marks.dataset.marked = this.hovered ? this.heads.length : 0;
  }

  drawTitles() {
    const { titles, all } = this.parts;
    const { scene } = this;
    const alone = scene.heads === 1;
    const label = (head) => (this.enlarged === null ? `Enlarge ${scene.titles[head]}` : `Back to all ${scene.heads} ${scene.tilesName}`);
    titles.replaceChildren(
      ...this.heads.map((head) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = scene.titles[head];
        button.disabled = alone;
        if (!alone) button.title = label(head);
        button.setAttribute("aria-label", alone ? scene.titles[head] : label(head));
        button.onclick = () => this.enlarge(this.enlarged === null && this.scene.heads > 1 ? head : null);
        return button;
      }),
    );
    all.hidden = this.enlarged === null;
    all.textContent = `← all ${scene.heads} ${scene.tilesName}`;
  }

  // Above its tile; inside it where a zoom leaves no room above.
  placeTitles() {
    const painter = this.painter(this.parts.pixels.getContext("2d"), devicePixelRatio || 1);
    const { clip } = painter;
    const high = 21 * this.theme.scale;
    [...this.parts.titles.children].forEach((button, place) => {
      const box = painter.tileBox(place);
      const left = Math.max(box.left, clip.left);
      const top = Math.max(box.top - high, clip.top);
      const room = Math.min(box.left + box.width, clip.left + clip.width) - left;
      button.hidden = room < 52 || box.top + box.height < top + high || box.top - high > clip.top + clip.height - high;
      button.style.maxWidth = `${room}px`; // a long title ends before the next tile's begins
      button.classList.toggle("inside", top > box.top - high + 1);
      button.style.transform = `translate(${left}px, ${top}px)`;
    });
  }

  enlarge(head) {
    if (head === this.enlarged) return;
    this.enlarged = head;
    this.view = null;
    this.hovered = null;
    this.table.picked = null; // it follows
    this.layOut();
    describe(this);
    this.table.show();
    this.setStateValue("enlarged", head === null ? "all" : String(head));
  }

  // What is drawn now, for a file: the pinned cell is part of it, the hovered one is not.
  picture() {
    const { scene, heads, theme, parts } = this;
    const { clientWidth, clientHeight } = parts.stage;
    const hint = scene.pinned ? "Click a cell to keep its number here; click a title to enlarge its tile." : scene.hint;
    const alone = { alone: true, enlarged: this.enlarged, keepsEnlarged: false, pin: this.pin };
    return {
      root: this.root,
      plot: parts.plot,
      width: clientWidth,
      height: clientHeight,
      theme,
      summary: scene.summary,
      file: scene.file,
      cells: heads.length * scene.queries * scene.keys,
      under: (context, ratio) => this.painter(context, ratio).paint(scene, heads, this.raster, this.palette, theme),
      over: (context, ratio) => {
        this.painter(context, ratio).outlines(scene, heads, null, this.pin);
        paintTitles(context, parts.titles, theme);
      },
      drawing: "heatmap.js",
      style: "heatmap.css",
      markup: this.markup,
      message: () => scene.again({ ...alone, hint, pinned: scene.pinned && "pinned", below: "" }),
    };
  }

  say(text) {
    this.parts.readout.textContent = text;
  }
}

export const draw = mounting(View);
