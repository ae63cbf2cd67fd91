// Fetches what a picture or a chart needs, once for the page: Plotly, the style sheet, the drawing code.
// The release is part of this file's own path, so a browser never mixes two of them.

const file = (name) => new URL(name, import.meta.url).href;

const starts = {
  heatmap: () => start(import(file("heatmap.js")), file("heatmap.css")),
  chart: () => start(import(file("chart.js")), file("chart.css")),
  sweep: () => start(import(file("sweep.js")), file("sweep.css")),
};

const loaded = {};

export const load = (drawing) => (loaded[drawing] ??= starts[drawing]());

async function start(code, style) {
  const [{ draw }] = await Promise.all([code, plotly(), added("link", { rel: "stylesheet", href: style })]);
  return draw;
}

let library;

function plotly() {
  return window.Plotly ?? (library ??= added("script", { src: file("plotly.min.js") }));
}

function added(tag, attributes) {
  return new Promise((done, failed) => {
    const element = Object.assign(document.createElement(tag), attributes);
    element.onload = done;
    element.onerror = () => failed(new Error(`could not load ${attributes.src ?? attributes.href}`));
    document.head.append(element);
  });
}
