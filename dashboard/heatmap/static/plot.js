// The Plotly figure: axes in tiles, one colour bar, nothing that changes with the numbers.

import { CURVES } from "./colour.js";

export const MARGIN = {
  wide: { l: 52, r: 76, t: 4, b: 46, pad: 0 },
  narrow: { l: 36, r: 10, t: 58, b: 42, pad: 0 },
};

export function figure(view, margin, range) {
  const { scene, grid, theme } = view;
  const narrow = margin === MARGIN.narrow;
  const axis = (title, name, length, limits) => {
    const marks = view.ticksFor(name, length);
    return {
      range: range[name],
      minallowed: Math.min(...limits),
      maxallowed: Math.max(...limits),
      tickvals: marks.values,
      ticktext: marks.text,
      title: { text: title, standoff: 6, font: { size: 13 } },
      tickfont: { size: 11 },
      ticks: "",
      tickangle: 0,
      showgrid: false,
      zeroline: false,
      color: theme.text,
    };
  };
  const full = view.fullView();
  return {
    data: [colourBar(scene, theme, narrow)],
    layout: {
      width: view.width,
      height: grid.height + margin.t + margin.b,
      margin,
      paper_bgcolor: "rgba(0, 0, 0, 0)",
      plot_bgcolor: "rgba(0, 0, 0, 0)",
      font: { family: theme.font || "sans-serif", color: theme.text, size: 12 },
      hovermode: false,
      showlegend: false,
      // a finger on the picture should scroll the page until the reader asks for zoom
      dragmode: view.parts.plot._fullLayout?.dragmode ?? (matchMedia("(pointer: coarse)").matches ? false : "zoom"),
      xaxis: axis("key (attended to)", "x", grid.width, full.x),
      yaxis: axis("query (attends)", "y", grid.height, full.y),
      modebar: { bgcolor: "rgba(0, 0, 0, 0)", color: theme.text, activecolor: theme.text, orientation: "h" },
    },
    config: { displaylogo: false, displayModeBar: true, doubleClick: false, showTips: false, responsive: false },
  };
}

// A heatmap trace that lies outside the axes and lends its colour bar.
function colourBar(scene, theme, narrow) {
  const { place, ticks } = CURVES[scene.curve];
  const perHead = scene.scale === "per-head";
  const text = ticks.map((tick) => (perHead ? `${+(100 * tick).toPrecision(3)} %` : String(tick)));
  const name = perHead ? "of the head's largest" : "weight";
  const title = { linear: name, sqrt: `${name}, √ scale`, log: `${name}, log scale` }[scene.curve];
  const along = narrow
    ? { orientation: "h", x: 0, xanchor: "left", y: 1, yanchor: "bottom", len: 1, thickness: 10 }
    : { orientation: "v", x: 1, xanchor: "left", xpad: 10, y: 1, yanchor: "top", len: 1, ypad: 26, thickness: 14 };
  if (!narrow) Object.assign(along, { lenmode: "pixels", len: 340 });
  return {
    type: "heatmap",
    x: [-9],
    y: [-9],
    z: [[0]],
    zmin: 0,
    zmax: 1,
    colorscale: scene.stops.map(([position, rgb]) => [position, `rgb(${rgb})`]),
    hoverinfo: "skip",
    colorbar: {
      ...along,
      tickvals: ticks.map(place),
      ticktext: text,
      tickfont: { size: 11, color: theme.text },
      title: { text: title, side: narrow ? "top" : "right", font: { size: 12, color: theme.text } },
      outlinewidth: 0,
    },
  };
}

// New ticks when a zoom made room for more of them or took it; null when the present ones will do.
export function tickUpdate(view) {
  const { xaxis, yaxis } = view.parts.plot._fullLayout;
  const x = view.ticksFor("x", xaxis._length);
  const y = view.ticksFor("y", yaxis._length);
  const now = [x.every, y.every, view.scene.keys, view.scene.queries, view.grid.columns, view.grid.rows].join();
  if (view.tickState === now) return null;
  view.tickState = now;
  return {
    "xaxis.tickvals": x.values,
    "xaxis.ticktext": x.text,
    "yaxis.tickvals": y.values,
    "yaxis.ticktext": y.text,
  };
}
