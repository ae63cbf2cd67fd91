// From a number to a place u on the colour scale (0 to 1), and from there to a colour.

const LEVELS = 1024;
export const NAN_RGB = [214, 39, 40];
export const LOG_FLOOR = 1e-4;

export const CURVES = {
  linear: { place: (w) => w, ticks: [0, 0.2, 0.4, 0.6, 0.8, 1] },
  sqrt: { place: Math.sqrt, ticks: [0, 0.01, 0.05, 0.1, 0.25, 0.5, 1] },
  log: { place: (w) => (w > LOG_FLOOR ? 1 - Math.log10(w) / Math.log10(LOG_FLOOR) : 0), ticks: [1e-4, 1e-3, 0.01, 0.1, 1] },
};

// What of the scale of differences is 0 alone: the smallest of them must not look like none.
export const NOTHING = 0.08;

// How the numbers of one tile lie on the colour scale. Weights begin at 0 and rise along the curve; signed numbers
// have 0 in the middle, so that a colour always tells the sign; differences grow with their logarithm, by decades.
export function scaleOf(scene, tile) {
  if (scene.kind === "difference") {
    const { low, high, infinite } = scene;
    return { name: `difference ${low} ${high} ${infinite}`, place: (x) => decade(scene, x) };
  }
  const most = scene.most(tile);
  if (scene.kind === "signed") return { name: `signed ${most}`, place: (x) => 0.5 + x / (2 * most) };
  const { place } = CURVES[scene.curve];
  return { name: `${scene.curve} ${most}`, place: (w) => place(w / most) };
}

// Below the lowest decade shown a difference has its colour. The upper end is infinity's, where there is one.
export function decade({ low, high, infinite }, x) {
  if (!(x > 0)) return 0;
  if (x === Infinity) return 1;
  const most = infinite ? 0.9 : 1;
  const share = (Math.log10(x) - Math.log10(low)) / (Math.log10(high) - Math.log10(low));
  return NOTHING + (most - NOTHING) * Math.max(0, Math.min(1, share));
}

// stops: [[position, [r, g, b]], ...] as Python reads them from Plotly's own scale
export class Palette {
  constructor(stops) {
    this.colours = Array.from({ length: LEVELS + 1 }, (_, i) => mix(stops, i / LEVELS));
    this.tables = new Map();
  }

  colour(u) {
    return this.colours[u > 1 ? LEVELS : u > 0 ? Math.round(u * LEVELS) : 0];
  }

  // Whether dark text reads better on it than white: by relative luminance, as WCAG 2 has it.
  isLight(number, scale) {
    const [r, g, b] = this.colour(scale.place(number)).map((c) => (c <= 10 ? c / 3294 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179;
  }

  // The colour, as packed RGBA, for every upper half of a float32: 8 bits of a number are all that a colour can show.
  table(scale) {
    if (!this.tables.has(scale.name)) {
      if (this.tables.size > 64) this.tables.clear();
      const table = new Uint32Array(65536);
      const value = new DataView(new ArrayBuffer(4));
      for (let half = 0; half < 65536; half++) {
        value.setUint32(0, ((half << 16) | 0x8000) >>> 0); // the middle of the numbers that share this half
        const number = value.getFloat32(0);
        table[half] = packRgb(Number.isNaN(number) ? NAN_RGB : this.colour(scale.place(number)));
      }
      table[0] = packRgb(this.colour(scale.place(0)));
      table[0x7f80] = packRgb(this.colour(scale.place(Infinity))); // the middle of these would be NaN
      table[0xff80] = packRgb(this.colour(scale.place(-Infinity)));
      this.tables.set(scale.name, table);
    }
    return this.tables.get(scale.name);
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
