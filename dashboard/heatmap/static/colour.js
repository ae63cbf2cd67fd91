// From a weight to a place u on the colour scale (0 to 1), and from there to a colour.

const LEVELS = 1024;
export const LOG_FLOOR = 1e-4;

export const CURVES = {
  linear: { place: (w) => w, ticks: [0, 0.2, 0.4, 0.6, 0.8, 1] },
  root: { place: Math.sqrt, ticks: [0, 0.01, 0.05, 0.1, 0.25, 0.5, 1] },
  log: { place: (w) => (w > LOG_FLOOR ? 1 - Math.log10(w) / Math.log10(LOG_FLOOR) : 0), ticks: [1e-4, 1e-3, 0.01, 0.1, 1] },
};

// stops: [[position, [r, g, b]], ...] as Python reads them from Plotly's own scale
export class Palette {
  constructor(stops) {
    this.packed = new Uint32Array(LEVELS + 1); // little-endian RGBA
    this.light = new Uint8Array(LEVELS + 1); // 1 where dark text is readable
    for (let i = 0; i <= LEVELS; i++) {
      const [r, g, b] = mix(stops, i / LEVELS);
      this.packed[i] = (255 << 24) | (b << 16) | (g << 8) | r;
      this.light[i] = 0.299 * r + 0.587 * g + 0.114 * b > 140 ? 1 : 0;
    }
  }

  level(u) {
    return u > 1 ? LEVELS : u > 0 ? Math.round(u * LEVELS) : 0;
  }
}

function mix(stops, u) {
  const after = Math.max(1, stops.findIndex(([position]) => position >= u));
  const [p0, c0] = stops[after - 1];
  const [p1, c1] = stops[after];
  const t = (u - p0) / (p1 - p0);
  return c0.map((c, i) => Math.round(c + t * (c1[i] - c)));
}

export const packRgb = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

// Any CSS colour as [r, g, b], by letting the browser paint it.
export function cssToRgb(colour) {
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data.subarray(0, 3)];
}
