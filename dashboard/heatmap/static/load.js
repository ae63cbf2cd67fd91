// Fetches what a picture needs, once for the page: Plotly, the style sheet, the drawing code.
// The release is part of this file's own path, so a browser never mixes two of them.

const file = (name) => new URL(name, import.meta.url).href;

let loaded;

export const load = () => (loaded ??= start());

async function start() {
  const [{ draw }] = await Promise.all([import(file("heatmap.js")), plotly(), style()]);
  return draw;
}

function plotly() {
  return window.Plotly ?? added("script", { src: file("plotly.min.js") });
}

function style() {
  return added("link", { rel: "stylesheet", href: file("heatmap.css") });
}

function added(tag, attributes) {
  return new Promise((done, failed) => {
    const element = Object.assign(document.createElement(tag), attributes);
    element.onload = done;
    element.onerror = () => failed(new Error(`could not load ${attributes.src ?? attributes.href}`));
    document.head.append(element);
  });
}
