// The Plotly figure: axes in tiles, one colour bar, nothing that changes with the numbers.

import { CURVES, Palette, decade } from "./colour.js";

const MARGIN = {
  wide: { l: 52, r: 76, t: 4, b: 46 },
  narrow: { l: 36, r: 10, t: 58, b: 42 },
};

export const LABEL = 10; // the size of a label: smaller than numbers, so that more of them stand
const SIGN = 6; // pixels that one of a label takes

// Room for the axes and the colour bar around a picture of this width, with type that is `scale` times as large and
// labels of up to so many signs, on rows and on columns.
export function marginFor(width, scale, { rows, columns }) {
  const narrow = width < 560 * scale;
  const sides = { ...(narrow ? MARGIN.narrow : MARGIN.wide) };
  sides.l += SIGN * Math.max(0, rows - 2);
  sides.b += SIGN * Math.max(0, columns - 2);
  for (const side in sides) sides[side] *= scale;
  return { ...sides, narrow };
}

export function figure(view, margin, range) {
  const { scene, grid, theme } = view;
  const { narrow, ...sides } = margin;
  const { scale } = theme;
  const axis = (title, name, length, limits) => {
    const marks = view.ticksFor(name, length);
    const labels = name === "x" ? scene.columnLabels : scene.rowLabels;
    return {
      range: range[name],
      minallowed: Math.min(...limits),
      maxallowed: Math.max(...limits),
      tickvals: marks.values,
      ticktext: marks.text,
      title: { text: title, standoff: 6 * scale, font: { size: 13 * scale } },
      tickfont: { size: (labels.length ? LABEL : 11) * scale },
      ticks: "",
      tickangle: name === "x" && scene.columnLabels.some((label) => label.length > 1) ? -90 : 0,
      showgrid: false,
      zeroline: false,
      color: theme.text,
    };
  };
  const full = view.fullView();
  return {
    data: [colourBar(scene, theme, narrow, grid)],
    layout: {
      width: view.width,
      height: grid.height + margin.t + margin.b,
      margin: { ...sides, pad: 0, autoexpand: false }, // else the colour bar would take height from the tiles
      paper_bgcolor: "rgba(0, 0, 0, 0)",
      plot_bgcolor: "rgba(0, 0, 0, 0)",
      font: { family: theme.font || "sans-serif", color: theme.text, size: 12 * scale },
      hovermode: false,
      showlegend: false,
      // a finger on the picture should scroll the page until the reader asks for zoom
      dragmode: view.parts.plot._fullLayout?.dragmode ?? (matchMedia("(pointer: coarse)").matches ? false : "zoom"),
      xaxis: axis(scene.columnsName, "x", grid.width, full.x),
      yaxis: axis(scene.rowsName, "y", grid.height, full.y),
      modebar: { bgcolor: "rgba(0, 0, 0, 0)", color: theme.text, activecolor: theme.text, orientation: "h" },
    },
    config: { displaylogo: false, displayModeBar: true, doubleClick: false, showTips: false, responsive: false },
  };
}

// A heatmap trace that lies outside the axes and lends its colour bar.
function colourBar(scene, theme, narrow, grid) {
  const along = narrow
    ? { orientation: "h", x: 0, xanchor: "left", y: 1, yanchor: "bottom", len: 1, thickness: 10 * theme.scale }
    : { orientation: "v", x: 1, xanchor: "left", xpad: 10, y: 1, yanchor: "top", len: 1, ypad: 26 * theme.scale, thickness: 14 * theme.scale };
  if (!narrow) Object.assign(along, { lenmode: "pixels", len: Math.max(120, Math.min(340, grid.height)) });
  const { title, colorscale, zmin, zmax, ...ticks } = SCALES[scene.kind](scene);
  return {
    type: "heatmap",
    x: [-9],
    y: [-9],
    z: [[zmin]],
    zmin,
    zmax,
    colorscale,
    hoverinfo: "skip",
    colorbar: {
      ...along,
      ...ticks,
      tickfont: { size: 11 * theme.scale, color: theme.text },
      title: { text: title, side: narrow ? "top" : "right", font: { size: 12 * theme.scale, color: theme.text } },
      outlinewidth: 0,
    },
  };
}

function weightScale(scene) {
  const { place, ticks } = CURVES[scene.curve];
  const perHead = scene.scale === "per-head";
  const name = perHead ? "of the head's largest" : scene.numberName;
  return {
    title: { linear: name, sqrt: `${name}, √ scale`, log: `${name}, log scale` }[scene.curve],
    colorscale: scene.stops.map(([position, rgb]) => [position, `rgb(${rgb})`]),
    zmin: 0,
    zmax: 1,
    tickvals: ticks.map(place),
    ticktext: ticks.map((tick) => (perHead ? `${+(100 * tick).toPrecision(3)} %` : String(+(tick * scene.high).toPrecision(3)))),
  };
}

// The part of the scale that the numbers take up: the bar ends where they end.
function signedScale(scene) {
  const perHead = scene.scale === "per-head";
  const most = perHead ? 1 : scene.most(0);
  const empty = perHead || scene.low >= scene.high;
  const [zmin, zmax] = empty ? [-most, most] : [scene.low, scene.high];
  const palette = new Palette(scene.stops);
  const colorscale = Array.from({ length: 65 }, (_, i) => {
    const number = zmin + (i / 64) * (zmax - zmin);
    return [i / 64, `rgb(${palette.colour(0.5 + number / (2 * most))})`];
  });
  const title = perHead ? `${scene.numberName}, of the largest` : scene.numberName;
  return { title, colorscale, zmin, zmax, nticks: 7, tickformat: perHead ? ".0%" : undefined };
}

// 0, then one tick for each decade, or for every other where there are many.
function differenceScale(scene) {
  const [low, high] = [scene.low, scene.high].map((end) => Math.round(Math.log10(end)));
  const every = Math.ceil((high - low) / 8) || 1;
  const decades = scene.low < scene.high ? Array.from({ length: high - low + 1 }, (_, i) => low + i).filter((d) => (high - d) % every === 0) : [];
  return {
    title: `${scene.numberName}, log scale`,
    colorscale: scene.stops.map(([position, rgb]) => [position, `rgb(${rgb})`]),
    zmin: 0,
    zmax: 1,
    tickvals: [0, ...decades.map((d) => decade(scene, 10 ** d)), ...(scene.infinite ? [1] : [])],
    ticktext: ["0", ...decades.map((d) => `1e${String(d).replace("-", "−")}`), "∞"],
  };
}

const SCALES = { weights: weightScale, signed: signedScale, difference: differenceScale };

// New ticks when a zoom made room for more of them or took it; null when the present ones will do.
export function tickUpdate(view) {
  const { xaxis, yaxis } = view.parts.plot._fullLayout;
  const x = view.ticksFor("x", xaxis._length);
  const y = view.ticksFor("y", yaxis._length);
  const { keys, queries, rowLabels, columnLabels } = view.scene;
  const now = [x.every, y.every, keys, queries, view.grid.columns, view.grid.rows, rowLabels, columnLabels].join();
  if (view.tickState === now) return null;
  view.tickState = now;
  return {
    "xaxis.tickvals": x.values,
    "xaxis.ticktext": x.text,
    "yaxis.tickvals": y.values,
    "yaxis.ticktext": y.text,
  };
}
