/* Puts the parts together: the head, what must be said aloud, and each part in its section. */

const PARTS = [["documents", "Documents"], ["ranking", "Ranking"], ["segments", "Segments"], ["graph", "Graph and chain"],
  ["fidelity", "Fidelity"], ["studies", "Measured"]];

function showHead(report) {
  document.getElementById("question").append(report.question);
  document.getElementById("facts").append(...Object.entries({ library: report.name, ...report.facts }).map(
    ([name, value]) => make("div", {}, make("dt", {}, name), make("dd", { dir: "auto" }, value))));
  document.getElementById("parts").append(make("ul", {}, PARTS.map(([id, title]) => {
    const missing = Boolean(report[id]?.missing);
    return make("li", {}, make("a", { href: `#${id}`, class: missing ? "absent" : null }, missing ? `${title} (none)` : title));
  })));
}

/** Say of the ranking what a reader must not overlook. */
function showNotices(ranking) {
  document.getElementById("notices").append(...notices([...ranking.unknown.map((name) => `Unknown name: ${name}.`),
    ...ranking.degraded.map((part) => `Degraded: ${part}.`)]));
}

/** Open everything for paper, and close it again. */
function openForPrint() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((each) => (each.open = true));
  });
  addEventListener("afterprint", () => opened.forEach((each) => (each.open = false)));
}

const REPORT = JSON.parse(document.getElementById("data").textContent);
const part = (id) => document.getElementById(id);
showHead(REPORT);
showNotices(REPORT.ranking);
showTree(part("documents"), REPORT.tree);
showRanking(part("ranking"), REPORT.ranking, REPORT.question);
showSegments(part("segments"), REPORT.segments);
showGraph(part("graph"), REPORT.graph);
showFidelity(part("fidelity"), REPORT.fidelity);
showStudies(part("studies"), REPORT.studies);
openForPrint();
