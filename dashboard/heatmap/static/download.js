// The buttons by which a picture is taken home. What makes the files is loaded when the first one is asked for.

const CURVE = "M2 17h5v5H2zM17 2h5v5h-5zM3.6 16C4 9 8.5 4 16 3.7v1.8C9.5 5.8 5.8 10 5.4 16z";
const CODE = "M8.6 17.4 3.2 12l5.4-5.4L7.2 5.2.4 12l6.8 6.8zM15.4 17.4 20.8 12l-5.4-5.4 1.4-1.4L23.6 12l-6.8 6.8z";

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
