// The picture as it stands, zoom included, as a PNG of twice the size on screen.

const SCALE = 2;

export async function exportPng(view) {
  const { plot, stage, titles } = view.parts;
  const [width, height] = [stage.clientWidth, stage.clientHeight];
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width * SCALE, height * SCALE];
  const context = canvas.getContext("2d");
  context.fillStyle = view.theme.background;
  context.fillRect(0, 0, canvas.width, canvas.height);
  view.painter(canvas, SCALE).paint(view.scene, view.heads, view.raster, view.palette, view.theme);

  const axes = new Image();
  axes.src = await Plotly.toImage(plot, { format: "png", width, height, scale: SCALE });
  await axes.decode();
  context.setTransform(SCALE, 0, 0, SCALE, 0, 0);
  context.drawImage(axes, 0, 0, width, height);

  const stageBox = stage.getBoundingClientRect();
  context.fillStyle = view.theme.text;
  context.textBaseline = "middle";
  for (const title of titles.children) {
    if (title.hidden) continue;
    const box = title.getBoundingClientRect();
    context.font = getComputedStyle(title).font;
    context.fillText(title.textContent, box.left - stageBox.left + 4, box.top - stageBox.top + box.height / 2);
  }

  const link = document.createElement("a");
  link.download = `${view.scene.file}.png`;
  link.href = URL.createObjectURL(await new Promise((done) => canvas.toBlob(done, "image/png")));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
