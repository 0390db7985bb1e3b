/* The segment relevance curve: a bar for each chunk along its document, the penalty line, and the runs that were taken. */

const CURVE = { height: 190, left: 46, right: 8, top: 22, bottom: 40 };

function told(bar) {
  const found = bar.rank === null ? "found by no query" : `rank ${bar.rank}, P ${fixed(bar.probability)}`;
  const where = bar.segment === null ? bar.why : `in segment ${bar.segment}`;
  return `Chunk ${bar.position}: value ${fixed(bar.value)}, ${found}; ${where}. ${bar.title ? `${bar.title}. ` : ""}${bar.excerpt}`;
}

/** Return where values of a curve lie in a drawing of some width. */
function curveScale(curve, penalty, width) {
  const places = curve.bars.map((bar) => bar.place);
  const values = curve.bars.map((bar) => bar.value);
  const [low, high] = [Math.min(-penalty, ...values), Math.max(0.05, ...values)];
  const room = width - CURVE.left - CURVE.right;
  const span = Math.max(4, places.at(-1) - places[0] + 1);
  return {
    low, high, unit: room / span,
    x: (place) => CURVE.left + ((place - places[0] + 0.5) / span) * room,
    y: (value) => CURVE.top + ((high - value) / (high - low)) * (CURVE.height - CURVE.top - CURVE.bottom),
  };
}

function curveLines(scale, penalty, width) {
  const line = (value, name, text, below) => [
    draw("line", { class: name, x1: CURVE.left, x2: width - CURVE.right, y1: scale.y(value), y2: scale.y(value) }),
    draw("text", { class: "quiet", x: CURVE.left - 6, y: scale.y(value) + (below ? 9 : 4), "text-anchor": "end" }, text)];
  return [line(scale.high, "axis", fixed(scale.high, 2)), line(0, "zero", "0"),
    line(-penalty, "penalty", fixed(-penalty, 2), penalty * scale.unit < 9)];
}

/** Return the titles of sections below their chunks, as many as have room. */
function sectionTitles(curve, scale, width) {
  const runs = [];
  for (const bar of curve.bars) {
    if (runs.at(-1)?.title === bar.title) runs.at(-1).last = bar.place;
    else runs.push({ title: bar.title, first: bar.place, last: bar.place });
  }
  const y = CURVE.height - CURVE.bottom + 12;
  let free = 0;
  return runs.map((run) => {
    const [from, to] = [scale.x(run.first - 0.42), scale.x(run.last + 0.42)];
    const most = Math.floor((Math.max(to - from, Math.min(90, width - from)) / 6.2));
    const fits = run.title && most >= 6 && from >= free;
    if (fits) free = from + Math.min(most, run.title.length) * 6.2 + 8;
    return [draw("line", { class: "zero", x1: from, x2: to, y1: y, y2: y }, draw("title", {}, run.title)),
      fits ? draw("text", { class: "quiet", x: from, y: y + 15 }, shortened(run.title, most)) : null];
  });
}

function curveDrawing(curve, penalty, width, state) {
  const scale = curveScale(curve, penalty, width);
  const bottom = CURVE.height - CURVE.bottom;
  const spans = curve.spans.map((span) => {
    const [from, to] = [scale.x(span.first), scale.x(span.last)];
    return [draw("rect", { class: "segment", x: from, y: CURVE.top - 16, width: to - from, height: bottom - CURVE.top + 16 }),
      draw("text", { x: (from + to) / 2, y: CURVE.top - 5, "text-anchor": "middle" }, `${span.number}: ${fixed(span.value, 2)}`)];
  });
  const bars = curve.bars.map((bar, at) => {
    const [top, foot] = [Math.min(scale.y(bar.value), scale.y(0)), Math.max(scale.y(bar.value), scale.y(0))];
    const shape = draw("rect", { class: bar.segment === null ? "bar" : "bar taken", x: scale.x(bar.place - 0.42),
      width: Math.max(1, scale.unit * 0.84), y: top, height: Math.max(1.5, foot - top) }, draw("title", {}, told(bar)));
    shape.addEventListener("pointerenter", () => state.go(at));
    return shape;
  });
  state.shapes = bars;
  return draw("svg", { viewBox: `0 0 ${width} ${CURVE.height}`, height: CURVE.height, role: "img",
    "aria-label": `Values of ${counted(curve.bars.length, "chunk")} of ${curve.title}; ${counted(curve.spans.length, "segment")} taken` },
  spans, curveLines(scale, penalty, width), bars, sectionTitles(curve, scale, width));
}

function showCurve(curve, penalty) {
  const readout = make("p", { class: "readout", "aria-live": "polite", dir: "auto" }, "Arrow keys, or the pointer, read the bars one by one.");
  const holder = make("div", { class: "drawing", tabindex: "0", role: "group", "aria-roledescription": "chart",
    "aria-label": `Chunk values of ${curve.title}; arrow keys read them one by one` });
  const state = { shapes: [], go: () => {} };
  state.go = walkable(holder, curve.bars.length, (at) => {
    readout.textContent = told(curve.bars[at]);
    state.shapes.forEach((shape, number) => shape.classList.toggle("cursor-on", number === at));
  });
  drawn(holder, (width) => curveDrawing(curve, penalty, width, state));
  const rows = curve.bars.map((bar) => [bar.position, bar.title, fixed(bar.value), bar.rank ?? "–", fixed(bar.probability),
    bar.segment ?? "–", bar.why]);
  return make("article", {}, make("h3", { dir: "auto" }, curve.title), holder, readout,
    make("ol", { class: "segments-list", role: "list" }, curve.spans.map((span) => make("li", { value: span.number },
      make("strong", { dir: "auto" }, span.citation), ` (value ${fixed(span.value, 2)})`, folded("Text", make("p", { class: "passage", dir: "auto" }, span.text))))),
    folded("The values as a table", table(`Chunks of ${curve.title}`,
      ["chunk#", "section", "value#", "rank#", "P#", "segment#", "why in none"], rows)));
}

function showSegments(part, found) {
  if (found.missing) return part.append(...absence(found));
  const used = `${found.used.toLocaleString("en")} of ${found.budget.toLocaleString("en")} ${found.unit} used`;
  return part.append(make("p", {}, "What each chunk is worth along its document. Shaded runs were taken: ", make("strong", {}, used), "."),
    ...notices(found.degraded), make("p", { class: "soft" }, found.caption),
    ...found.curves.map((curve) => showCurve(curve, found.penalty)));
}
