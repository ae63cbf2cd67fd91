// What the reader does with pointer and keyboard, and what the picture says to it.

import { cellAt } from "./grid.js";
import { axisMap } from "./paint.js";

// what a screen reader says of the picture after its name
const KEYS =
  "Arrow keys move a cell cursor; Home and End take it to the ends of its row, with Control to the corners; " +
  "Page Up and Page Down to the tile before and after; Escape leaves. The numbers are also below, as a table.";
let pictures = 0;

export function listen(view) {
  const { stage, tip, all, keys: described } = view.parts;
  described.id = `heads-keys-${pictures++}`;
  stage.setAttribute("aria-describedby", described.id);
  all.onclick = () => view.enlarge(null);
  stage.addEventListener("pointermove", (event) => hover(view, cellUnder(view, event), event));
  stage.addEventListener("pointerleave", () => hover(view, null));
  let down = null;
  stage.addEventListener("pointerdown", (event) => (down = event.button === 0 ? event : null), true);
  // on the window: while the button is down Plotly covers the page to follow a drag
  const up = (event) => {
    const still = down && Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < 5;
    const cell = still && down.target.closest(".plot") && !down.target.closest(".modebar") && cellUnder(view, down);
    down = null;
    if (cell) togglePin(view, cell);
  };
  stage.addEventListener("pointerdown", () => window.addEventListener("pointerup", up, { once: true, capture: true }), true);
  stage.addEventListener("keydown", (event) => key(view, event));
  stage.addEventListener("blur", () => hover(view, null));
  view.onFullscreen = () => view.layOut();
  document.addEventListener("fullscreenchange", view.onFullscreen);
  tip.hidden = true;
}

function cellUnder(view, event) {
  const { xaxis, yaxis } = view.parts.plot._fullLayout ?? {};
  if (!xaxis) return null;
  const box = view.parts.stage.getBoundingClientRect();
  const [left, top] = [event.clientX - box.left, event.clientY - box.top];
  const inside = (axis, pixel) => pixel >= axis._offset && pixel < axis._offset + axis._length;
  if (!inside(xaxis, left) || !inside(yaxis, top)) return null;
  const [x, y] = [axisMap(xaxis).value(left), axisMap(yaxis).value(top)];
  const cell = cellAt(view.grid, view.heads.length, view.scene, x, y);
  return cell && { head: view.heads[cell.place], query: cell.query, key: cell.key };
}

export function hover(view, cell, event) {
  const same = JSON.stringify(cell) === JSON.stringify(view.hovered);
  view.hovered = cell;
  if (!same) {
    view.mark();
    describe(view);
  }
  const { tip, stage } = view.parts;
  tip.hidden = !cell || !event;
  if (tip.hidden) return;
  if (!same) tip.textContent = sentence(view.scene, cell);
  const box = stage.getBoundingClientRect();
  const left = Math.min(event.clientX - box.left + 14, stage.clientWidth - tip.offsetWidth - 4);
  const above = event.clientY - box.top + 18 + tip.offsetHeight > stage.clientHeight;
  const top = event.clientY - box.top + (above ? -tip.offsetHeight - 10 : 18);
  tip.style.transform = `translate(${Math.max(0, left)}px, ${top}px)`;
}

function sentence(scene, cell) {
  const [row, join, column] = scene.pair;
  const where = `${scene.titles[cell.head]} · ${row} ${scene.row(cell.query)} ${join} ${column} ${scene.column(cell.key)}`;
  if (scene.isBlank(cell)) return `${where}: yours to fill in`;
  if (scene.isMasked(cell)) return `${where}: masked, may not attend`;
  return `${where}: ${exact(scene.weight(cell))}`;
}

export function describe(view) {
  const { readout, stage, keys } = view.parts;
  const { scene, pin } = view;
  stage.setAttribute("aria-label", `${scene.summary} ${scene.seen}`);
  keys.textContent = scene.pinned ? `${KEYS} Enter pins the cell.` : KEYS;
  if (view.hovered) readout.textContent = sentence(scene, view.hovered);
  else if (scene.nans) {
    const every = scene.nans === scene.values.length;
    readout.textContent = every ? "Every cell is NaN." : `${scene.nans} cells are NaN (red).`;
  }
  else if (pin && scene.contains(pin)) readout.textContent = `${sentence(scene, pin)} (${scene.pinned})`;
  else readout.textContent = scene.hint;
}

function togglePin(view, cell) {
  if (!view.scene.pinned) return; // nothing would come of it
  const same = view.pin && ["head", "query", "key"].every((name) => view.pin[name] === cell[name]);
  view.pin = same ? null : cell;
  view.mark();
  describe(view);
  // The time makes each click another one: the page may have moved on since, and the same cell is news to it.
  const pin = view.pin ? `${cell.head}-${cell.query}-${cell.key}` : "none";
  view.setStateValue("pin", `${pin}#${Date.now()}`);
}

// The keyboard alone is answered in words: a pointer would fill the ears of whoever also listens.
function say(view, text) {
  view.parts.spoken.textContent = text;
}

function key(view, event) {
  if (event.altKey || event.metaKey) return; // the browser's own
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const { scene } = view;
  const cell = view.hovered ?? (scene.contains(view.pin) ? view.pin : { head: view.heads[0], query: 0, key: 0 });
  if (event.target !== view.parts.stage) return;
  if (moves[event.key]) {
    const [down, right] = moves[event.key];
    const clamp = (value, size) => Math.max(0, Math.min(size - 1, value));
    hover(view, { ...cell, query: clamp(cell.query + down, scene.queries), key: clamp(cell.key + right, scene.keys) });
  } else if (event.key === "PageDown" || event.key === "PageUp") {
    const next = view.heads.indexOf(cell.head) + (event.key === "PageDown" ? 1 : -1);
    if (view.heads[next] !== undefined) hover(view, { ...cell, head: view.heads[next] });
  } else if (event.key === "Home" || event.key === "End") {
    const end = event.key === "End";
    const query = !event.ctrlKey ? cell.query : end ? scene.queries - 1 : 0;
    hover(view, { ...cell, query, key: end ? scene.keys - 1 : 0 });
  } else if (event.key === "Enter") togglePin(view, cell);
  else if (event.key === "Escape") hover(view, null);
  else return;
  event.preventDefault();
  const at = view.hovered ?? (event.key === "Enter" ? view.pin : null);
  const pinned = event.key === "Enter" && scene.pinned && (view.pin ? ` (${scene.pinned})` : ", not pinned any more");
  say(view, at ? sentence(scene, at) + (pinned || "") : "No cell.");
}

// All the digits that tell one float32 from the next.
export function exact(weight) {
  if (weight === 0 || weight === 1 || Number.isNaN(weight)) return String(weight);
  if (!Number.isFinite(weight)) return weight > 0 ? "∞" : "−∞";
  return Math.abs(weight) < 1e-4 ? weight.toExponential(8) : weight.toPrecision(9);
}
