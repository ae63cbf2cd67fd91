// From a weight to a place u on the colour scale (0 to 1), and from there to a colour.

const LEVELS = 1024;
const NAN_RGB = [214, 39, 40];
export const LOG_FLOOR = 1e-4;

export const CURVES = {
  linear: { place: (w) => w, ticks: [0, 0.2, 0.4, 0.6, 0.8, 1] },
  sqrt: { place: Math.sqrt, ticks: [0, 0.01, 0.05, 0.1, 0.25, 0.5, 1] },
  log: { place: (w) => (w > LOG_FLOOR ? 1 - Math.log10(w) / Math.log10(LOG_FLOOR) : 0), ticks: [1e-4, 1e-3, 0.01, 0.1, 1] },
};

// stops: [[position, [r, g, b]], ...] as Python reads them from Plotly's own scale
export class Palette {
  constructor(stops) {
    this.colours = Array.from({ length: LEVELS + 1 }, (_, i) => mix(stops, i / LEVELS));
    this.tables = new Map();
  }

  colour(weight, curve, top) {
    const u = CURVES[curve].place(weight / top);
    return this.colours[u > 1 ? LEVELS : u > 0 ? Math.round(u * LEVELS) : 0];
  }

  // Whether dark text reads better on it than white: by relative luminance, as WCAG 2 has it.
  isLight(weight, curve, top) {
    const [r, g, b] = this.colour(weight, curve, top).map((c) => (c <= 10 ? c / 3294 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179;
  }

  // The colour, as packed RGBA, for every upper half of a float32: 8 bits of a weight are all that a colour can show.
  table(curve, top) {
    const name = `${curve} ${top}`;
    if (!this.tables.has(name)) {
      if (this.tables.size > 64) this.tables.clear();
      const table = new Uint32Array(65536);
      const [upper, value] = [new Uint32Array(1), new DataView(new ArrayBuffer(4))];
      for (let half = 0; half < 65536; half++) {
        upper[0] = (half << 16) | 0x8000; // the middle of the numbers that share this half
        value.setUint32(0, upper[0]);
        const weight = value.getFloat32(0);
        table[half] = packRgb(Number.isNaN(weight) ? NAN_RGB : this.colour(weight, curve, top));
      }
      table[0] = packRgb(this.colour(0, curve, top));
      this.tables.set(name, table);
    }
    return this.tables.get(name);
  }
}

function mix(stops, u) {
  const after = Math.max(1, stops.findIndex(([position]) => position >= u));
  const [p0, c0] = stops[after - 1];
  const [p1, c1] = stops[after];
  const t = (u - p0) / (p1 - p0);
  return c0.map((c, i) => Math.round(c + t * (c1[i] - c)));
}

const packRgb = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

// Any CSS colour as [r, g, b], by letting the browser paint it.
export function cssToRgb(colour) {
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data.subarray(0, 3)];
}
