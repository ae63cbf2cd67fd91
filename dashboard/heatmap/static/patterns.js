// Squares that repeat into a pattern: diagonal lines for what is masked, crosses for NaN. Drawn once each, as a stroke for
// every line and tile would cost more than the cells; `draw` draws them again, for a file.

import { NAN_RGB } from "./colour.js";

const tiles = new Map();

export function hatchTile({ maskedFill, maskedLine }) {
  const size = 6;
  return once(`hatch ${maskedFill} ${maskedLine}`, size, (context) => {
    context.fillStyle = maskedFill;
    context.fillRect(0, 0, size, size);
    context.strokeStyle = maskedLine;
    context.beginPath();
    for (const offset of [-size, 0, size]) {
      context.moveTo(offset - 1, size + 1);
      context.lineTo(offset + size + 1, -1);
    }
    context.stroke();
  });
}

export function crossTile() {
  const size = 7;
  return once("cross", size, (context) => {
    context.fillStyle = `rgb(${NAN_RGB})`;
    context.fillRect(0, 0, size, size);
    context.strokeStyle = "#fff";
    context.lineWidth = 1.2;
    context.beginPath();
    for (const [from, to] of [[1, size - 1], [size - 1, 1]]) {
      context.moveTo(from, 1);
      context.lineTo(to, size - 1);
    }
    context.stroke();
  });
}

function once(name, size, draw) {
  if (!tiles.has(name)) {
    const tile = Object.assign(new OffscreenCanvas(size, size), { draw });
    draw(tile.getContext("2d"));
    tiles.set(name, tile);
  }
  return tiles.get(name);
}
