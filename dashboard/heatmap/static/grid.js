// Where the tiles lie. Plot coordinates count tiles: tile (column c, row r) spans x from c to c + tileX and
// y from r + 1 - tileY to r + 1, and the rest of its unit is gap, with the title above. They do not depend
// on the number of tokens, so a zoom stays on the same part of the picture when that changes.

const TITLE = 24; // pixels above a tile, with type of the usual size
const GAP = 12; // pixels beside a tile
const NUMBERED_CELL = 14; // pixels that a cell needs to have its number printed
const FEW = 6; // tiles that may stand below each other, each as wide as the picture
export const MAX_NUMBERED = 16; // tokens up to which numbers are printed without zooming in

// `aspect` is a tile's height over its width; with a `height` the tiles fill it,
// else none is over `tallest` pixels. A few tiles are as wide as the longest title, of `titled` pixels.
// `scale` is how large the type is, and so a title.
export function layOut({ heads, tokens, width, height, aspect, tallest, titled, scale }) {
  const title = TITLE * scale;
  const columns = columnsFor(heads, tokens, width, height, heads <= FEW ? titled : 0, title);
  const rows = Math.ceil(heads / columns);
  const pitch = width / columns;
  const tile = Math.max(24, pitch - GAP);
  let tileHeight = Math.max(24, Math.min(tallest, tile * aspect));
  if (height) tileHeight = Math.max(24, height / rows - title);
  return {
    columns,
    rows,
    tileX: tile / pitch,
    tileY: tileHeight / (tileHeight + title),
    width,
    height: rows * (tileHeight + title),
  };
}

// A tidy grid a little wider than high, in which a cell with a number has room for it.
function columnsFor(heads, tokens, width, height, titled, title) {
  if (height) return bestFit(heads, width, height, title);
  const wanted = Math.sqrt(1.5 * heads);
  const tidy = Array.from({ length: heads }, (_, i) => i + 1).filter((n) => heads % n === 0);
  const nearest = tidy.reduce((a, b) => (Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a));
  const preferred = Math.abs(nearest - wanted) < 0.45 * wanted ? nearest : Math.ceil(wanted);
  const roomy = tokens <= MAX_NUMBERED ? Math.max(96, NUMBERED_CELL * tokens) : 200;
  const smallest = Math.max(titled, width < 560 ? 130 : roomy); // on a phone two heads side by side, and a title's tap for the numbers
  const most = Math.max(1, Math.floor(width / (smallest + GAP)));
  if (preferred <= most) return preferred;
  return tidy.filter((n) => n <= most && n > most / 2).pop() ?? most;
}

// Full screen: the largest square tiles that all fit.
function bestFit(heads, width, height, title) {
  let best = 1;
  let side = 0;
  for (let columns = 1; columns <= heads; columns++) {
    const fits = Math.min(width / columns - GAP, height / Math.ceil(heads / columns) - title);
    if (fits > side) [best, side] = [columns, fits];
  }
  return best;
}

export const tileOrigin = (grid, place) => ({
  x: place % grid.columns,
  y: Math.floor(place / grid.columns) + 1 - grid.tileY,
});

// The cell under a point in plot coordinates: {place, query, key}, or null in a gap.
export function cellAt(grid, count, tokens, x, y) {
  const column = Math.floor(x);
  const row = Math.floor(y);
  const place = row * grid.columns + column;
  if (column < 0 || column >= grid.columns || row < 0 || place >= count) return null;
  const u = (x - column) / grid.tileX;
  const v = (y - row - 1 + grid.tileY) / grid.tileY;
  if (u < 0 || u >= 1 || v < 0 || v >= 1) return null;
  return { place, query: Math.floor(v * tokens.queries), key: Math.floor(u * tokens.keys) };
}

// Tick positions and labels along one axis: every n-th token of every tile, n so that labels do not touch.
export function ticks(tiles, start, extent, tokens, cellPixels, room, name) {
  const every = 2 ** Math.max(0, Math.ceil(Math.log2(room / cellPixels)));
  const values = [];
  const text = [];
  for (let tile = 0; tile < tiles; tile++)
    for (let token = 0; token < tokens; token += every) {
      values.push(tile + start + ((token + 0.5) / tokens) * extent);
      text.push(name(token));
    }
  return { values, text, every };
}
