// The pixels under Plotly's axes: one pixel per cell on a raster, scaled onto the canvas tile by tile.

import { NAN_RGB, scaleOf } from "./colour.js";
import { MAX_NUMBERED, tileOrigin } from "./grid.js";

export class Raster {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d");
  }

  // Tiles in one column, so that a head's cells are one block of the image data.
  fill(scene, palette) {
    const { heads, queries, keys, values, mask, packed, stride } = scene;
    if (this.mask !== mask || this.heads !== heads) {
      this.canvas.width = keys;
      this.canvas.height = heads * queries;
      this.image = this.context.createImageData(keys, heads * queries);
      this.pixels = new Uint32Array(this.image.data.buffer);
      Object.assign(this, { mask, heads });
    }
    const halves = new Uint16Array(values.buffer, values.byteOffset, 2 * values.length);
    for (let head = 0; head < heads; head++) {
      const table = palette.table(scaleOf(scene, head));
      const pixels = this.pixels.subarray(head * mask.size, (head + 1) * mask.size);
      let upper = 2 * head * stride + 1;
      if (packed) for (let i = 0; i < stride; i++, upper += 2) pixels[mask.cells[i]] = table[halves[upper]];
      else for (let i = 0; i < stride; i++, upper += 2) pixels[i] = table[halves[upper]];
      // see-through where masked: the pattern for it lies under the raster
      if (!packed)
        for (let i = 0; i < stride; i++) {
          const number = values[head * stride + i];
          if (mask.rank[i] < 0 && (number === 0 || number === -Infinity)) pixels[i] = 0;
        }
    }
    this.context.putImageData(this.image, 0, 0);
    this.nans = scene.nans ? this.markNans(scene) : null;
  }

  // Where NaN stands: a canvas like that of the pixels, opaque there.
  markNans({ heads, queries, keys, values, mask, packed, stride }) {
    const canvas = new OffscreenCanvas(keys, heads * queries);
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    values.forEach((number, i) => {
      if (!Number.isNaN(number)) return;
      const [head, place] = [Math.floor(i / stride), i % stride];
      image.data[4 * (head * mask.size + (packed ? mask.cells[place] : place)) + 3] = 255;
    });
    context.putImageData(image, 0, 0);
    return canvas;
  }
}

const hatchTiles = new Map();

// A square that repeats into diagonal lines; drawn once, as a stroke for every line and tile would cost more than the cells.
function hatchTile({ maskedFill, maskedLine }) {
  const name = maskedFill + maskedLine;
  if (!hatchTiles.has(name)) {
    const size = 6;
    const tile = new OffscreenCanvas(size, size);
    const context = tile.getContext("2d");
    context.fillStyle = maskedFill;
    context.fillRect(0, 0, size, size);
    context.strokeStyle = maskedLine;
    context.beginPath();
    for (const offset of [-size, 0, size]) {
      context.moveTo(offset - 1, size + 1);
      context.lineTo(offset + size + 1, -1);
    }
    context.stroke();
    hatchTiles.set(name, tile);
  }
  return hatchTiles.get(name);
}

let crossed;

function crossTile() {
  if (crossed) return crossed;
  const size = 7;
  crossed = new OffscreenCanvas(size, size);
  const context = crossed.getContext("2d");
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
  return crossed;
}

// Plot coordinate to pixel along one axis and back, from Plotly's own numbers. A y range runs from bottom to top.
export function axisMap(axis) {
  const [from, to] = axis._id === "y" ? [...axis.range].reverse() : axis.range;
  return {
    pixel: (value) => axis._offset + ((value - from) / (to - from)) * axis._length,
    value: (pixel) => from + ((pixel - axis._offset) / axis._length) * (to - from),
  };
}

export class Painter {
  constructor(context, { grid, x, y, clip, ratio }) {
    Object.assign(this, { context, grid, x, y, clip, ratio });
  }

  tileBox(place) {
    const origin = tileOrigin(this.grid, place);
    const left = this.x.pixel(origin.x);
    const top = this.y.pixel(origin.y);
    return {
      left,
      top,
      width: this.x.pixel(origin.x + this.grid.tileX) - left,
      height: this.y.pixel(origin.y + this.grid.tileY) - top,
    };
  }

  isVisible(box) {
    const { left, top, width, height } = this.clip;
    return box.left < left + width && box.left + box.width > left && box.top < top + height && box.top + box.height > top;
  }

  isWhole(box) {
    const { left, top, width, height } = this.clip;
    return box.left >= left && box.left + box.width <= left + width && box.top >= top && box.top + box.height <= top + height;
  }

  paint(scene, heads, raster, palette, theme) {
    const { context, clip } = this;
    context.save();
    context.beginPath();
    context.rect(clip.left, clip.top, clip.width, clip.height);
    context.clip();
    heads.forEach((head, place) => {
      const box = this.tileBox(place);
      if (!this.isVisible(box)) return;
      if (scene.hasMask) this.hatch(box, theme);
      const enlarges = (box.width * this.ratio) / scene.keys >= 1;
      context.imageSmoothingEnabled = !enlarges; // smaller than a pixel: average, do not drop cells
      context.imageSmoothingQuality = "high";
      context.drawImage(
        raster.canvas, 0, head * scene.queries, scene.keys, scene.queries,
        box.left, box.top, box.width, box.height,
      );
      const named = this.numbers(scene, head, box, palette);
      if (scene.nans && !named) this.crosses(raster, scene, head, box);
    });
    context.restore();
  }

  // NaN is told by more than its colour where cells are too small for the word.
  crosses(raster, scene, head, box) {
    const part = new OffscreenCanvas(Math.max(1, Math.ceil(box.width * this.ratio)), Math.max(1, Math.ceil(box.height * this.ratio)));
    const context = part.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(raster.nans, 0, head * scene.queries, scene.keys, scene.queries, 0, 0, part.width, part.height);
    context.globalCompositeOperation = "source-in";
    context.scale(this.ratio, this.ratio);
    context.fillStyle = context.createPattern(crossTile(), "repeat");
    context.fillRect(0, 0, box.width + 1, box.height + 1);
    this.context.drawImage(part, box.left, box.top, box.width, box.height);
  }

  hatch(box, theme) {
    const { context } = this;
    context.fillStyle = context.createPattern(hatchTile(theme), "repeat");
    context.fillRect(box.left, box.top, box.width, box.height);
  }

  // Whether there is room for them.
  numbers(scene, head, box, palette) {
    const width = box.width / scene.keys;
    const height = box.height / scene.queries;
    const room = Math.min(width, 2 * height);
    const small = scene.queries <= MAX_NUMBERED && scene.keys <= MAX_NUMBERED;
    const signed = scene.kind === "signed";
    const difference = scene.kind === "difference";
    if (room < (signed || difference ? 27 : small ? 11 : 30)) return false;
    const decimals = room >= 64 ? 4 : room >= 40 ? 3 : 2;
    const characters = difference ? 5 : signed ? decimals + 3 : decimals + (decimals > 2 ? 2 : 1);
    const font = Math.min(14, (room - 2) / (0.55 * characters));
    const { context } = this;
    context.font = `${font}px "Source Sans", sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const scale = scaleOf(scene, head);
    for (let query = 0; query < scene.queries; query++)
      for (let key = 0; key < scene.keys; key++) {
        const cell = { head, query, key };
        const x = box.left + (key + 0.5) * width;
        const y = box.top + (query + 0.5) * height;
        if (!this.isVisible({ left: x, top: y, width: 1, height: 1 }) || scene.isMasked(cell)) continue;
        const weight = scene.weight(cell);
        const text = difference ? printedSize(weight) : signed ? printedSigned(weight, decimals) : printed(weight, decimals);
        // half a number would be a wrong one
        const [w, h] = [context.measureText(text).width, font];
        if (!this.isWhole({ left: x - w / 2, top: y - h / 2, width: w, height: h })) continue;
        context.fillStyle = palette.isLight(weight, scale) ? "#111" : "#fff";
        context.fillText(text, x, y + font * 0.06);
      }
    return true;
  }

  outline(place, scene, cell, strong) {
    const box = this.tileBox(place);
    if (!this.isVisible(box)) return;
    const width = box.width / scene.keys;
    const height = box.height / scene.queries;
    const left = box.left + cell.key * width;
    const top = box.top + cell.query * height;
    if (!strong) {
      this.frame(box.left, top, box.width, height, 1);
      this.frame(left, box.top, width, box.height, 1);
    }
    this.frame(left, top, width, height, strong ? 3 : 2);
  }

  // Light on dark, so that it is seen on every colour of the scale.
  frame(left, top, width, height, line) {
    const { context } = this;
    context.strokeStyle = "rgba(0, 0, 0, 0.7)";
    context.lineWidth = line + 2;
    context.strokeRect(left, top, width, height);
    context.strokeStyle = "#fff";
    context.lineWidth = line;
    context.strokeRect(left, top, width, height);
  }
}

export function printed(weight, decimals) {
  const text = weight.toFixed(decimals);
  if (decimals > 2) return text;
  return text === "1.00" ? "1" : text.replace(/^0/, "");
}

// A size that may be of any power of ten.
export function printedSize(number) {
  if (number === 0 || !Number.isFinite(number)) return number === 0 ? "0" : Number.isNaN(number) ? "NaN" : "∞";
  return number.toExponential(0).replace("-", "−").replace("+", "");
}

// As many digits as `decimals` says, before and after the point together.
export function printedSigned(number, decimals) {
  const before = Math.max(1, Math.floor(Math.log10(Math.abs(number) || 1)) + 1);
  return number.toFixed(Math.max(0, decimals + 1 - before)).replace("-", "−");
}
