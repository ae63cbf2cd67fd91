// A picture as one HTML file that works without a network: the very code that draws it on the page, Plotly, and the
// message with its numbers. So it zooms, tells exact numbers and has the page's colours, and weighs little more than these.

import { base64, fetched, fontRule } from "./inline.js";
import { escaped } from "./svg.js";

const COLOURS = ["text", "background", "secondary-background", "border", "primary", "green-text", "red-text"];
const VARIABLES = [...COLOURS.map((name) => `--st-${name}-color`), "--st-font", "--st-button-radius"];
const IMPORT = /(from |import\()"\.\/(\w+\.js)"/g;

// The file may ask nobody for anything, whatever is in it.
const POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:; font-src data:";

const PAGE = `
body { margin: 1rem auto; padding: 0 1rem; max-width: 1600px; background: var(--st-background-color); color: var(--st-text-color); font-family: var(--st-font); }
h1 { font-size: 1.1rem; font-weight: 600; }
`;

// `drawing` draws and `style` dresses, each a file beside this one; `markup` is what it draws into, `message()` what
// Python would send.
export async function html({ root, markup, drawing, style, message, summary, file }) {
  const theme = getComputedStyle(root);
  const variables = VARIABLES.map((name) => `${name}: ${theme.getPropertyValue(name)};`).join(" ");
  const [plotly, css, modules, numbers, font] = await Promise.all([
    text("plotly.min.js"),
    text(style),
    modulesFrom(drawing),
    base64(new Blob([message()])),
    fontRule(theme.getPropertyValue("--st-font")),
  ]);
  const parts = [
    `<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n`,
    `<meta http-equiv="Content-Security-Policy" content="${POLICY}">\n`,
    `<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>${escaped(file)}</title>\n`,
    `<style>${font}\n:root { ${inside(variables)} }${PAGE}${inside(css)}</style>\n`,
    `<script>${inside(plotly)}</script>\n`,
    `<script type="importmap">${JSON.stringify({ imports: modules })}</script>\n</head>\n<body>\n`,
    `<h1>${escaped(summary)}</h1>\n${markup}\n`,
    `<script type="text/plain" id="message">${numbers}</script>\n`,
    `<script type="module">
import { draw } from "lab/${drawing}";
const data = Uint8Array.from(atob(document.getElementById("message").textContent), (sign) => sign.charCodeAt(0));
draw({ data, parentElement: document.body, setStateValue() {} });
</script>\n</body>\n</html>\n`,
  ];
  return new Blob(parts, { type: "text/html" });
}

// What would end the element that it is put into, written in a way that is the same to JavaScript and to CSS.
const inside = (code) => code.replace(/<(\/script|\/style|!--)/gi, "<\\$1");

// The drawing's modules as an import map. Modules from data URLs cannot find each other by relative names.
async function modulesFrom(entry) {
  const found = {};
  const visit = async (name) => {
    if (found[`lab/${name}`]) return;
    found[`lab/${name}`] = "on its way";
    const code = await text(name);
    found[`lab/${name}`] = `data:text/javascript;charset=utf-8,${encodeURIComponent(code.replace(IMPORT, '$1"lab/$2"'))}`;
    await Promise.all([...code.matchAll(IMPORT)].map(([, , other]) => visit(other)));
  };
  await visit(entry);
  return found;
}

const text = async (name) => (await fetched(new URL(name, import.meta.url))).text();
