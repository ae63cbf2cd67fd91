// A picture as it stands, zoom included, as PNG and as SVG: what lies under Plotly's axes, the axes, what lies over them.
//
// A picture is {plot, width, height, theme, summary, cells, under, over}; `under` and `over` paint onto a context, at a
// given number of pixels for each of the page's, and are done with before anything is waited for: else a new scene
// could come between the parts.

import { fontRule } from "./inline.js";
import { SvgContext, escaped } from "./svg.js";

const SCALE = 2; // a PNG is twice as large as on screen
const FEW_CELLS = 6144; // up to so many each is an element of the SVG; 12 heads of 16 tokens have 3072

export async function png(picture) {
  const { width, height } = picture;
  const axes = axesOf(picture);
  const [canvas, above] = [layer(picture, "under"), layer(picture, "over")];
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(await axes)}`;
  await image.decode();
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(image, 0, 0, width * SCALE, height * SCALE);
  context.drawImage(above, 0, 0);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function layer(picture, name) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width * SCALE, picture.height * SCALE];
  const context = canvas.getContext("2d");
  context.setTransform(SCALE, 0, 0, SCALE, 0, 0);
  if (name === "under") background(context, picture);
  picture[name](context, SCALE);
  return canvas;
}

export async function svg(picture) {
  const { width, height, summary } = picture;
  const axes = axesOf(picture);
  const [below, above] = [new SvgContext(picture.cells <= FEW_CELLS), new SvgContext()];
  background(below, picture);
  picture.under(below, devicePixelRatio || 1);
  picture.over(above, devicePixelRatio || 1);
  const size = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ${size}>`,
    `<title>${escaped(summary)}</title>`,
    below.text,
    await axes,
    above.text,
    "</svg>",
  ];
  return new Blob(parts, { type: "image/svg+xml" });
}

function background(context, { width, height, theme }) {
  context.fillStyle = theme.background;
  context.fillRect(0, 0, width, height);
}

// Plotly's part, as SVG that has the page's font with it.
async function axesOf({ plot, width, height, theme }) {
  const drawn = Plotly.toImage(plot, { format: "svg", width, height, imageDataOnly: true });
  const font = await fontRule(theme.font);
  return (await drawn).replace("<defs", `<style>${font}</style><defs`);
}
