// The titles as they stand on the page, where they are buttons: painted for a file.

export function paintTitles(context, titles, theme) {
  const stage = titles.getBoundingClientRect();
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const title of titles.children) {
    if (title.hidden) continue;
    const { left, top, width, height } = title.getBoundingClientRect();
    const [x, y] = [left - stage.left, top - stage.top];
    if (title.classList.contains("inside")) {
      context.fillStyle = theme.background;
      context.fillRect(x, y, width, height);
    }
    context.font = getComputedStyle(title).font;
    context.fillStyle = theme.text;
    const { paddingLeft, paddingRight } = getComputedStyle(title);
    const room = width - parseFloat(paddingLeft) - parseFloat(paddingRight);
    context.fillText(cut(context, title.textContent, room), x + parseFloat(paddingLeft), y + height / 2);
  }
}

// A long title ends before the next tile's begins.
function cut(context, text, room) {
  const fits = (part) => context.measureText(part).width <= room + 0.5; // the browser rounds a box's width
  if (fits(text)) return text;
  const signs = [...text];
  while (signs.length && !fits(`${signs.join("")}…`)) signs.pop();
  return `${signs.join("")}…`;
}
