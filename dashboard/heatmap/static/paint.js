// The pixels under Plotly's axes: one pixel per cell on a raster, scaled onto the canvas tile by tile.

import { scaleOf } from "./colour.js";
import { MAX_NUMBERED, tileOrigin } from "./grid.js";
import { crossTile, hatchTile } from "./patterns.js";

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
  }
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
      this.blanks(scene, box, theme);
      const named = this.numbers(scene, head, box, palette, theme);
      if (scene.nans && !named) this.crosses(scene, head, box);
    });
    context.restore();
  }

  // NaN is told by more than its colour where cells are too small for the word.
  crosses(scene, head, box) {
    const { context } = this;
    const [width, height] = [box.width / scene.keys, box.height / scene.queries];
    const isNan = (query, key) => Number.isNaN(scene.weight({ head, query, key }));
    context.save();
    context.beginPath();
    for (let query = 0; query < scene.queries; query++)
      for (let key = 0; key < scene.keys; key++) {
        const from = key;
        while (key < scene.keys && isNan(query, key)) key++;
        if (key > from) context.rect(box.left + from * width, box.top + query * height, (key - from) * width, height);
      }
    context.clip();
    context.fillStyle = context.createPattern(crossTile(), "repeat");
    context.fillRect(box.left, box.top, box.width, box.height);
    context.restore();
  }

  hatch(box, theme) {
    const { context } = this;
    context.fillStyle = context.createPattern(hatchTile(theme), "repeat");
    context.fillRect(box.left, box.top, box.width, box.height);
  }

  // Rows that the reader fills in: empty fields with a question mark.
  blanks(scene, box, theme) {
    const { context } = this;
    const [width, height] = [box.width / scene.keys, box.height / scene.queries];
    context.font = `600 ${Math.min(16, 0.6 * height, 0.9 * width)}px "Source Sans", sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const row of scene.blank)
      for (let key = 0; key < scene.keys; key++) {
        const [left, top] = [box.left + key * width, box.top + row * height];
        context.fillStyle = theme.background;
        context.fillRect(left, top, width, height);
        context.strokeStyle = theme.text;
        context.lineWidth = 1;
        context.strokeRect(left + 1, top + 1, width - 2, height - 2);
        context.fillStyle = theme.text;
        context.fillText("?", left + width / 2, top + height / 2);
      }
  }

  // Whether there is room for them.
  numbers(scene, head, box, palette, theme) {
    const width = box.width / scene.keys;
    const height = box.height / scene.queries;
    const room = Math.min(width, 2 * height);
    const small = scene.queries <= MAX_NUMBERED && scene.keys <= MAX_NUMBERED;
    const signed = scene.kind === "signed";
    const difference = scene.kind === "difference";
    if (room < (signed || difference ? 27 : small ? 11 : 30)) return false;
    const decimals = room >= 64 ? 4 : room >= 40 ? 3 : 2;
    const characters = difference ? 5 : signed ? decimals + 3 : decimals + (decimals > 2 ? 2 : 1);
    const font = Math.min(14 * theme.scale, (room - 2) / (0.55 * characters));
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

  // The hovered cell's row and column in every head, and the pinned cell.
  outlines(scene, heads, hovered, pin) {
    const { context, clip } = this;
    context.save();
    context.beginPath();
    context.rect(clip.left - 2, clip.top - 2, clip.width + 4, clip.height + 4);
    context.clip();
    heads.forEach((head, place) => {
      if (hovered) this.outline(place, scene, hovered, false);
      if (pin?.head === head && scene.contains(pin)) this.outline(place, scene, pin, true);
    });
    context.restore();
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
  if (weight === 0 || weight === 1) return String(weight); // exactly: 0.0000 would say less
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
