// The buttons by which a picture is taken home. What makes the files is loaded when the first one is asked for.

const CURVE = "M1 17h6v6H1zM17 1h6v6h-6zM2.8 17C3 9 9 3 17 2.8v2.4C10.5 5.4 5.4 10.5 5.2 17z";
const CODE = "M7.6 4.6l2 2L4.2 12l5.4 5.4-2 2L.2 12zM16.4 4.6l-2 2 5.4 5.4-5.4 5.4 2 2L23.8 12z";

// A file that stands alone has nowhere to fetch its own parts from.
const FORMATS = [
  { name: "png", title: "Download as PNG", icon: () => Plotly.Icons.camera, alone: true },
  { name: "svg", title: "Download as SVG", icon: () => ({ width: 24, height: 24, path: CURVE }), alone: true },
  { name: "html", title: "Download as HTML", icon: () => ({ width: 24, height: 24, path: CODE }), alone: false },
];

const MAKERS = {
  png: async () => (await import("./export.js")).png,
  svg: async () => (await import("./export.js")).svg,
  html: async () => (await import("./standalone.js")).html,
};

// For a view that has a `picture()` and can `say()` something: {name, title, icon, click} each, as Plotly's bar wants it.
export function downloads(view, isAlone) {
  return FORMATS.filter(({ alone }) => alone || !isAlone).map(({ name, title, icon }) => ({
    name,
    title,
    icon: icon(),
    click: () => download(view, name).catch(() => view.say("The file could not be made: the server does not answer.")),
  }));
}

async function download(view, format) {
  const make = await MAKERS[format](); // before the picture is taken: it must be of one moment
  const picture = view.picture();
  const link = document.createElement("a");
  link.download = `${picture.file}.${format}`;
  link.href = URL.createObjectURL(await make(picture));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
