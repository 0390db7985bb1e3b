/* The ranking: a card for each hit with the bar of its score, the routes, the terms and the passage. */

const ROUTES = new Set(["dense", "lexical", "keyword", "passages"]);

/* What each route compares, in plain words; its own name in brackets, as in the formula and the legend. */
const MEANT = { dense: "meaning (dense)", lexical: "words (lexical)", keyword: "names and codes (keyword)",
  passages: "words of the best passage (passages)" };

function routeClass(route) {
  return `route-${ROUTES.has(route) ? route : "other"}`;
}

/** Return the bar of a score: a piece for each part, all bars on one scale. */
function partsBar(hit, most) {
  const pieces = hit.parts.filter((part) => part.value > 0).map((part) => {
    const piece = make("span", { class: routeClass(part.route), title: `${part.route} ${fixed(part.value)}` });
    piece.style.width = `${(100 * part.value) / most}%`;
    return piece;
  });
  return make("div", { class: "parts", role: "img", "aria-label": sumOf(hit) }, pieces);
}

function sumOf(hit) {
  const told = hit.parts.map((part) => `${part.route} ${fixed(part.value)}`).join(" + ");
  return `${told} = ${fixed(hit.whole)}`;
}

function ways(hit) {
  return make("ul", { class: "chips", "aria-label": "Routes that found it" }, hit.ways.map((way) => {
    const rank = way.rank === null ? "not among its best" : `rank ${way.rank}`;
    const name = way.route === "name" ? `best for ${way.view}` : `${MEANT[way.route] ?? `${way.route} ${way.view}`}`;
    return make("li", {}, make("span", { class: `swatch ${routeClass(way.route)}`, "aria-hidden": "true" }),
      `${name}: ${rank}, score ${fixed(way.score)}`);
  }));
}

/** Return the rows of a table that match the question, its words marked. */
function rowsShown(preview, question) {
  const cells = (name, row, attributes) => make("tr", {}, row.map((cell) => make(name, attributes, marked(cell, question))));
  const rows = make("table", { dir: "auto" }, make("thead", {}, cells("th", preview.header, { scope: "col" })),
    make("tbody", {}, preview.rows.map((row) => cells("td", row, {}))));
  const more = preview.more ? make("p", { class: "soft" }, `and ${counted(preview.more, "more row")}`) : null;
  return [make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows that match" }, rows), more];
}

/** Return what matches the question; the whole passage takes its place when it is asked for. */
function passage(text, preview, question) {
  const below = text.replace(/^(#{1,6} .*\n+)+/, "") || text; // the citation says the headings
  const brief = make("div", { class: "preview" }, preview.header.length ? rowsShown(preview, question) : null,
    preview.text ? make("p", { class: "passage", dir: "auto" }, marked(preview.text, question)) : null);
  if (!preview.header.length && preview.text === below.trim()) return [brief];
  const whole = make("p", { class: "passage whole", dir: "auto", hidden: true }, marked(below, question));
  const more = make("button", { type: "button", "aria-expanded": "false" }, "Whole passage");
  more.addEventListener("click", () => {
    whole.hidden = !whole.hidden;
    brief.hidden = !whole.hidden;
    more.setAttribute("aria-expanded", String(!whole.hidden));
    more.textContent = whole.hidden ? "Whole passage" : "Less";
  });
  return [brief, whole, make("div", {}, more)];
}

function hitCard(hit, most, question) {
  const terms = hit.terms.length
    ? make("p", { class: "soft" }, "Critical terms of the question: ",
      hit.terms.flatMap((term, at) => [at ? ", " : "", make("mark", { dir: "auto" }, term)]))
    : null;
  return make("li", { class: "hit", id: `hit-${hit.rank}`, tabindex: "-1" },
    make("div", { class: "hit-head" }, make("span", { class: "badge", "aria-label": `hit ${hit.rank}` }, String(hit.rank)),
      make("h3", { dir: "auto" }, hit.citation), make("span", { class: "score" }, fixed(hit.score))),
    hit.parts.length ? [partsBar(hit, most), make("p", { class: "soft" }, sumOf(hit))] : null,
    ways(hit), terms, passage(hit.text, hit.preview, question),
    hit.page ? folded("The page, with the passage marked",
      make("img", { src: hit.page, class: "page", alt: `Page of ${hit.citation}, the passage marked` })) : null,
    make("p", { class: "soft", dir: "auto" }, `${hit.kind === "text" ? "" : `${hit.kind}, `}${hit.document}`));
}

function showRanking(part, found, question) {
  const most = Math.max(1e-9, ...found.hits.map((hit) => hit.whole));
  const routes = [...new Set(found.hits.flatMap((hit) => hit.parts.map((each) => each.route)))];
  if (found.notice) part.append(...notices([found.notice]));
  part.append(make("p", { class: "soft" }, found.formula));
  if (routes.length) {
    part.append(make("ul", { class: "legend", "aria-label": "Parts of the score" }, routes.map((route) =>
      make("li", {}, make("span", { class: `swatch ${routeClass(route)}`, "aria-hidden": "true" }), route))));
  }
  if (!found.hits.length) part.append(make("p", { class: "absence" }, "Nothing was found."));
  part.append(make("ol", { class: "hits", role: "list" }, found.hits.map((hit) => hitCard(hit, most, question))));
  if (!found.hits.length) return;
  const rows = found.hits.flatMap((hit) => hit.ways.map((way) => [hit.rank, hit.citation, fixed(hit.score),
    way.route, way.view, way.rank ?? "–", fixed(way.score),
    fixed(hit.parts.find((each) => each.route === way.route)?.value)]));
  part.append(folded("The ranking as a table", table("Each hit by each route that found it",
    ["hit#", "citation", "score#", "route", "view", "rank there#", "raw score#", "part of the score#"], rows)));
}
