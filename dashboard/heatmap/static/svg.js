// A stand-in for a canvas's context that writes SVG for the calls that the painter makes: what paints the screen also
// writes the file, so the two cannot differ. Of the state, save and restore keep the clip, which is all that is asked.

let count = 0;
const unique = () => `lab-${++count}`; // in the page that the file may be put into, no other part has such a name

export const escaped = (text) => String(text).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
const short = (number) => String(+number.toFixed(3));

export class SvgContext {
  // `cellsAsRects`: each pixel of an image becomes an element, which editors can take hold of; else it stays an image.
  constructor(cellsAsRects = false) {
    this.cellsAsRects = cellsAsRects;
    this.ruler = document.createElement("canvas").getContext("2d"); // measures text, and writes every colour and font one way
    this.groups = [];
    this.patterns = new Map();
    this.lineWidth = 1;
    this.body = "";
    this.defs = "";
  }

  get text() {
    return `<defs>${this.defs}</defs>${this.body}`;
  }

  save() {
    this.groups.push(0);
  }

  restore() {
    this.body += "</g>".repeat(this.groups.pop());
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${short(x)} ${short(y)}`;
  }

  lineTo(x, y) {
    this.path += `L${short(x)} ${short(y)}`;
  }

  rect(x, y, width, height) {
    this.path += `M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}z`;
  }

  clip() {
    const id = unique();
    this.defs += `<clipPath id="${id}"><path d="${this.path}"/></clipPath>`;
    this.body += `<g clip-path="url(#${id})">`;
    this.groups[this.groups.length - 1]++;
  }

  stroke() {
    this.body += `<path d="${this.path}" fill="none" ${this.inked("stroke", this.strokeStyle)} stroke-width="${this.lineWidth}"/>`;
  }

  fillRect(x, y, width, height) {
    this.body += `<rect ${box(x, y, width, height)} ${this.inked("fill", this.fillStyle)}/>`;
  }

  strokeRect(x, y, width, height) {
    const line = `${this.inked("stroke", this.strokeStyle)} stroke-width="${this.lineWidth}"`;
    this.body += `<rect ${box(x, y, width, height)} fill="none" ${line}/>`;
  }

  // A tile that says by `draw` how it was made.
  createPattern(tile) {
    if (!this.patterns.has(tile)) {
      const id = unique();
      const inside = new SvgContext();
      tile.draw(inside);
      const { width, height } = tile;
      this.defs += `<pattern id="${id}" patternUnits="userSpaceOnUse" width="${width}" height="${height}">${inside.body}</pattern>`;
      this.patterns.set(tile, `url(#${id})`);
    }
    return this.patterns.get(tile);
  }

  drawImage(source, left, top, columns, rows, x, y, width, height) {
    const cells = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
    const pixels = cells.getContext("2d", { willReadFrequently: true });
    pixels.drawImage(source, left, top, columns, rows, 0, 0, columns, rows);
    if (!this.cellsAsRects) {
      const style = this.imageSmoothingEnabled ? "" : ' style="image-rendering: pixelated"';
      this.body += `<image ${box(x, y, width, height)} preserveAspectRatio="none"${style} xlink:href="${cells.toDataURL("image/png")}"/>`;
      return;
    }
    const scale = `translate(${short(x)} ${short(y)}) scale(${width / columns} ${height / rows})`;
    this.body += `<g transform="${scale}" shape-rendering="crispEdges">`; // no seams between neighbours
    const { data } = pixels.getImageData(0, 0, columns, rows);
    for (let cell = 0; cell < columns * rows; cell++) {
      const [r, g, b, seen] = data.subarray(4 * cell, 4 * cell + 4);
      if (!seen) continue; // the hatching below
      const colour = `#${((r << 16) | (g << 8) | b).toString(16).padStart(6, "0")}`;
      this.body += `<rect x="${cell % columns}" y="${Math.floor(cell / columns)}" width="1" height="1" fill="${colour}"/>`;
    }
    this.body += "</g>";
  }

  set font(font) {
    this.ruler.font = font;
  }

  set textBaseline(baseline) {
    this.ruler.textBaseline = baseline;
  }

  measureText(text) {
    return this.ruler.measureText(text);
  }

  // As wide as on the page, even where the page's font is missing; not every reader of SVG knows of baselines.
  fillText(text, x, y) {
    const { width, alphabeticBaseline } = this.measureText(text);
    const [, weight, size, family] = /^(.*?) ?([\d.]+)px (.+)$/.exec(this.ruler.font);
    const font = `font-family="${escaped(family)}" font-size="${size}"${weight && ` font-weight="${weight}"`}`;
    const anchor = this.textAlign === "center" ? ' text-anchor="middle"' : "";
    const length = `textLength="${short(width)}" lengthAdjust="spacingAndGlyphs"`;
    const place = `x="${short(x)}" y="${short(y - alphabeticBaseline)}"`;
    this.body += `<text ${place}${anchor} ${font} ${length} ${this.inked("fill", this.fillStyle)}>${escaped(text)}</text>`;
  }

  // A colour or a pattern as attributes; SVG writes what shines through apart from the colour.
  inked(name, style) {
    if (style.startsWith("url(")) return `${name}="${style}"`;
    this.ruler.fillStyle = style;
    const [, rgb, alpha] = /^rgba\((.+), ([\d.]+)\)$/.exec(this.ruler.fillStyle) ?? [];
    return rgb ? `${name}="rgb(${rgb})" ${name}-opacity="${alpha}"` : `${name}="${this.ruler.fillStyle}"`;
  }
}

const box = (x, y, width, height) => `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"`;
