"use strict";
/* What every part of the page is made with. Texts are always text nodes: no string is ever read as markup. */

const SVG = "http://www.w3.org/2000/svg";

/** Return an HTML element; attributes that are null or false are left out, `class` and `aria-…` as they are named. */
function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Return an SVG element. */
function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

/** Return a number with some digits after the point; a dash where there is none. */
function fixed(number, digits = 3) {
  return number === null || number === undefined ? "–" : Number(number).toFixed(digits);
}

/** Return a count with its noun: "1 hit", "1,204 chunks". */
function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** Return a table in a box that scrolls by itself; a column whose name ends in # holds numbers. */
function table(caption, columns, rows) {
  const kinds = columns.map((column) => (column.endsWith("#") ? "number" : null));
  const head = columns.map((column, at) => make("th", { scope: "col", class: kinds[at] }, column.replace(/#$/, "")));
  const body = rows.map((row) => make("tr", {}, row.map((cell, at) => make("td", { class: kinds[at] }, String(cell)))));
  const whole = make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, head)),
    make("tbody", {}, body));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, whole);
}

/** Return what opens on request. */
function folded(summary, ...children) {
  return make("details", {}, make("summary", {}, summary), ...children);
}

/** Return what is said of a part that cannot be shown. */
function absence(part) {
  const hint = part.hint ? make("p", { class: "absence" }, "Try: ", make("code", {}, part.hint)) : null;
  return [make("p", { class: "absence" }, part.missing), hint];
}

function notices(texts) {
  return texts.map((text) => make("p", { class: "notice", role: "note", dir: "auto" }, text));
}

/** Draw into a holder whenever its width changes: `drawer(width)` returns an SVG element. */
function drawn(holder, drawer) {
  let last = 0;
  const again = () => {
    const width = Math.round(holder.clientWidth);
    if (width && width !== last) {
      last = width;
      holder.replaceChildren(drawer(width));
    }
  };
  new ResizeObserver(again).observe(holder);
  again();
}

/** Return text with the words of the question marked. */
function marked(text, question) {
  const words = [...new Set(question.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}.\-]+/gu) ?? [])].filter(
    (word) => word.length > 3 || /\p{N}/u.test(word));
  const plain = words.map((word) => word.replace(/[.\-]+$/, "").replace(/[.*+?^${}()|[\]\\\-]/g, "\\$&"));
  if (!plain.length) return [text];
  const found = new RegExp(`(?<![\\p{L}\\p{N}])(${plain.join("|")})(?![\\p{L}\\p{N}])`, "giu");
  return text.split(found).map((piece, at) => (at % 2 ? make("mark", {}, piece) : piece));
}

/** Let arrow keys move along `count` things: `show(number)` is called with where the reader stands. */
function walkable(node, count, show) {
  let at = -1;
  const go = (to) => {
    at = Math.min(count - 1, Math.max(0, to));
    show(at);
  };
  node.addEventListener("keydown", (event) => {
    const step = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: count - 1, PageDown: at + 10, PageUp: at - 10 };
    if (event.key in step) {
      go(step[event.key]);
      event.preventDefault();
    }
  });
  return go;
}
