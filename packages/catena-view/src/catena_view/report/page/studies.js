/* Fidelity strips, page by page, and the pictures of what questions measured. */

const MEASURES = ["recall", "precision", "order"];
const FLOOR = 0.9; // all that is worse is as dark

function pageTold(page) {
  const shares = MEASURES.map((name) => `${name} ${fixed(page[name])}`).join(", ");
  return `Page ${page.page}: ${shares}; ${page.state}${page.faults.length ? `; ${page.faults.join("; ")}` : ""}`;
}

function stripDrawing(strip, width, state) {
  const [left, cell, top] = [64, 22, 8];
  const wide = Math.max(2, (width - left - 4) / strip.pages.length);
  const used = Math.min(wide, 26);
  state.shapes = strip.pages.map((page, at) => {
    const cells = MEASURES.map((name, row) => draw("rect", { x: left + at * used, y: top + row * cell, width: Math.max(1, used - 1), height: cell - 2,
      fill: `color-mix(in oklab, var(--low) ${Math.round(100 * Math.min(1, (1 - page[name]) / (1 - FLOOR)))}%, var(--high))` }));
    const mark = page.state === "llm" ? null : draw("circle", { cx: left + at * used + used / 2, cy: top + 3 * cell + 5, r: Math.min(4, used / 2), fill: page.state === "layout" ? "var(--tone-1)" : "var(--tone-4)" });
    const shape = draw("g", {}, cells, mark, draw("title", {}, pageTold(page)));
    shape.addEventListener("pointerenter", () => state.go(at));
    return shape;
  });
  const labels = MEASURES.map((name, row) => draw("text", { x: left - 6, y: top + row * cell + 15, "text-anchor": "end" }, name));
  return draw("svg", { viewBox: `0 0 ${width} 86`, height: 86, role: "img", "aria-label": strip.caption }, labels, state.shapes);
}

function showStrip(strip) {
  const readout = make("p", { class: "readout", "aria-live": "polite" }, "Arrow keys, or the pointer, read the pages one by one.");
  const holder = make("div", { class: "drawing", tabindex: "0", role: "group", "aria-roledescription": "chart", "aria-label": `Fidelity of ${strip.title}; arrow keys read it page by page` });
  const state = { shapes: [], go: () => {} };
  state.go = walkable(holder, strip.pages.length, (at) => {
    readout.textContent = pageTold(strip.pages[at]);
    state.shapes.forEach((shape, number) => shape.classList.toggle("cursor-on", number === at));
  });
  drawn(holder, (width) => stripDrawing(strip, width, state));
  const rows = strip.pages.map((page) => [page.page, ...MEASURES.map((name) => fixed(page[name])), page.state, page.faults.join("; ")]);
  return make("article", {}, make("h3", { dir: "auto" }, strip.title), holder, readout, make("p", { class: "soft" }, strip.caption),
    folded("The pages as a table", table(`Fidelity of ${strip.title}`, ["page#", "recall#", "precision#", "order#", "whose text", "faults"], rows)));
}

function showFidelity(part, found) {
  if (found.missing) return part.append(...absence(found));
  return part.append(make("p", { class: "soft" }, "How much of each page's own words its Markdown has, how much of it is the page's, and whether in order. Red is worse; a dot marks pages whose first answer was not taken."),
    ...found.strips.map(showStrip));
}

function showStudies(part, found) {
  if (found.missing) return part.append(...absence(found));
  part.append(make("p", { class: "soft" }, found.note), table("Means, with 95 % intervals", found.columns.map((column, at) => (at ? `${column}#` : column)), found.rows));
  return part.append(...found.figures.map((figure) => make("figure", {}, make("h3", {}, figure.title),
    make("img", { src: figure.image, alt: `${figure.title}. ${figure.caption}` }), make("figcaption", {}, figure.caption))));
}
