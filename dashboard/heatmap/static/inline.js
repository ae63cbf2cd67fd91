// What a file carries in itself, so that it needs no other: bytes as text, and the page's font.

export const base64 = (blob) =>
  new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(blob);
  });

// From the browser's own cache, where the page has had it before.
export async function fetched(url) {
  const answer = await fetch(url, { cache: "force-cache" });
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return answer.blob();
}

// The first font of a CSS list as a style rule, if the page brings that font itself; else nothing. Without it a text
// would be wider than the room that was measured for it.
export async function fontRule(fonts) {
  const family = bare(fonts.split(",")[0]);
  const found = [...document.styleSheets].flatMap(facesOf).find((face) => face.family === family);
  if (!found) return "";
  const data = found.url.startsWith("data:") ? found.url : `data:font/woff2;base64,${await base64(await fetched(found.url))}`;
  return `@font-face { font-family: "${family}"; font-weight: 100 900; src: url("${data}") format("woff2"); }`;
}

function facesOf(sheet) {
  if (sheet.href && new URL(sheet.href).origin !== location.origin) return []; // its rules may not be read
  return [...sheet.cssRules]
    .filter((rule) => rule instanceof CSSFontFaceRule && rule.style.getPropertyValue("font-style") !== "italic")
    .map(({ style }) => {
      const [, url] = /url\("?([^")]+)"?\)/.exec(style.getPropertyValue("src")) ?? [];
      return { family: url && bare(style.getPropertyValue("font-family")), url: url && new URL(url, sheet.href ?? location.href).href };
    });
}

const bare = (family) => family.trim().replace(/^["']|["']$/g, "");
