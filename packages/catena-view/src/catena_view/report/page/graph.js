/* The graph's controls, its keys, what is told of a node, and the chains as text. */

const READABLE = 1.2; // edges per node that still can be followed

function toneOf(group) {
  return group.tone < 0 ? "var(--other)" : `var(--tone-${group.tone})`;
}

/** Return the least strength, in percent, at which a graph shows so few edges that they can be followed. */
function readableStrength(graph) {
  const most = Math.max(600, READABLE * graph.nodes.length);
  for (let percent = 0; percent < 100; percent += 1) {
    let count = 0;
    for (const kind of graph.kinds) eachEdge(kind, percent / 100, () => (count += 1));
    if (count <= most) return percent;
  }
  return 100;
}

/** Return the neighbours of a node by kind, the strongest first. */
function neighbours(graph, node) {
  return graph.kinds.map((kind) => {
    const found = [];
    eachEdge(kind, 0, (one, two, weight) => {
      if (one === node || two === node) found.push({ node: one === node ? two : one, weight });
    });
    return { kind: kind.kind, found: found.sort((a, b) => b.weight - a.weight) };
  }).filter((each) => each.found.length);
}

function nodeTold(graph, at) {
  const node = graph.nodes[at];
  const joined = neighbours(graph, at);
  return [make("strong", { dir: "auto" }, node.citation), make("span", { dir: "auto" }, ` “${node.excerpt}” `),
    node.keywords.length ? make("span", { class: "soft" }, `Keywords: ${node.keywords.slice(0, 8).join(", ")}. `) : null,
    make("span", { class: "soft" }, joined.length
      ? `Joined to ${joined.map((each) => `${each.found.length} by ${each.kind} (strongest ${fixed(each.found[0].weight, 2)})`).join(", ")}.`
      : "Joined to nothing.")];
}

/** Return the number of the place nearest to another in the direction of an arrow key, or the same. */
function towards(places, at, key) {
  const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key];
  let [best, least] = [at, Infinity];
  places.forEach((place, number) => {
    const along = (place.x - places[at].x) * dx + (place.y - places[at].y) * dy;
    const aside = Math.abs((place.x - places[at].x) * dy) + Math.abs((place.y - places[at].y) * dx);
    const cost = along + 2.5 * aside;
    if (along > 1e-6 && aside <= 2 * along && cost < least) [best, least] = [number, cost];
  });
  return best;
}

function kindBox(kind, changed) {
  const box = make("input", { type: "checkbox", checked: true });
  box.addEventListener("change", changed);
  const name = /^[a-z]+$/.test(kind.kind) ? kind.kind : "";
  const sample = draw("svg", { class: "sample", viewBox: "0 0 34 10", "aria-hidden": "true" },
    draw("path", { class: `edges ${name}`, d: "M0 5H34", "stroke-width": "2.2", "stroke-dasharray": DASHES[kind.dash] }));
  return { kind, box, label: make("label", {}, box, sample, `${kind.kind} (${kind.count.toLocaleString("en")})`) };
}

/** Build the field with its controls; return a function that chooses a node. */
function graphField(part, graph) {
  graph.kinds.forEach((kind) => {
    kind.most = 0;
    eachEdge({ ...kind, most: 0 }, 0, (one, two, weight) => (kind.most = Math.max(kind.most, weight)));
  });
  const state = { chosen: null, zoom: 1, dx: 0, dy: 0, clusters: false, scale: null };
  const readout = make("p", { class: "readout", "aria-live": "polite" }, "Choose a node with the pointer, or walk with the arrow keys.");
  const shown = make("output", { class: "soft" });
  const field = make("div", { class: "drawing field", tabindex: "0", role: "application", "aria-roledescription": "graph",
    "aria-label": `Graph of ${counted(graph.nodes.length, "passage")}. Arrow keys go to the nearest node, n and p along the chain, plus, minus and 0 zoom, Escape lets go.` });
  const boxes = graph.kinds.map((kind) => kindBox(kind, () => render()));
  const start = readableStrength(graph);
  const slider = make("input", { type: "range", min: 0, max: 100, step: 1, value: start, "aria-label": "Hide edges weaker than this share of the strongest of their kind" });
  const percent = make("output", {}, `${start} %`);
  const radios = ["passages", "documents"].map((name, at) => make("input", { type: "radio", name: "graph-view", value: name, checked: at === 0 }));

  const places = () => (state.clusters ? graph.groups : graph.nodes);
  const view = () => ({ kinds: boxes.filter((each) => each.box.checked).map((each) => each.kind), least: slider.value / 100,
    chosen: state.chosen, tone: (group) => toneOf(graph.groups[group]) });

  function render() {
    const scale = graphScale(state.width);
    state.scale = scale;
    const now = view();
    const inner = state.clusters ? clustersDrawing(graph, scale, now) : nodesDrawing(graph, scale, now);
    state.layer = draw("g", {}, inner);
    const svg = draw("svg", { viewBox: `0 0 ${scale.width} ${scale.height}`, height: scale.height, "aria-hidden": "true" }, arrowHead(), state.layer);
    field.replaceChildren(svg);
    let count = 0;
    now.kinds.forEach((kind) => eachEdge(kind, now.least, () => (count += 1)));
    const all = graph.kinds.reduce((sum, kind) => sum + kind.count, 0);
    shown.textContent = `${count.toLocaleString("en")} of ${all.toLocaleString("en")} edges shown`;
    percent.textContent = `${slider.value} %`;
    move();
  }

  function move() {
    const { zoom, scale } = state;
    state.dx = Math.min(0, Math.max(scale.width * (1 - zoom), state.dx));
    state.dy = Math.min(0, Math.max(scale.height * (1 - zoom), state.dy));
    state.layer.setAttribute("transform", `translate(${state.dx} ${state.dy}) scale(${zoom})`);
    field.classList.toggle("zoomed", zoom > 1);
  }

  function zoomBy(factor) {
    const { width, height } = state.scale;
    const zoom = Math.min(8, Math.max(1, state.zoom * factor));
    const middle = state.chosen === null ? [width / 2, height / 2] : [state.scale.x(places()[state.chosen].x), state.scale.y(places()[state.chosen].y)];
    const grown = zoom / state.zoom;
    const centre = state.chosen === null ? [(middle[0] - state.dx) * grown - middle[0], (middle[1] - state.dy) * grown - middle[1]]
      : [middle[0] * zoom - width / 2, middle[1] * zoom - height / 2];
    Object.assign(state, { zoom, dx: -centre[0], dy: -centre[1] });
    move();
  }

  function choose(at) {
    state.chosen = at;
    if (at === null) readout.textContent = "No node is chosen.";
    else if (state.clusters) readout.textContent = `${graph.groups[at].title}: ${counted(graph.groups[at].nodes, "chunk")} drawn.`;
    else readout.replaceChildren(...nodeTold(graph, at).filter(Boolean));
    render();
    if (at !== null && state.zoom > 1) zoomBy(1);
  }

  const hops = graph.chains.flat().map((hop) => hop.node);
  const keys = { n: 1, p: -1 };
  field.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) choose(state.chosen === null ? hops[0] ?? 0 : towards(places(), state.chosen, event.key));
    else if (event.key in keys && hops.length && !state.clusters) choose(hops[(hops.indexOf(state.chosen) + keys[event.key] + hops.length) % hops.length]);
    else if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "0") zoomBy(1e-9);
    else if (event.key === "Escape") choose(null);
    else return;
    event.preventDefault();
  });
  drag(field, state, move, (target) => target?.dataset?.node !== undefined && choose(Number(target.dataset.node)));
  slider.addEventListener("input", render);
  radios.forEach((radio) => radio.addEventListener("change", () => {
    Object.assign(state, { clusters: radios[1].checked, zoom: 1 });
    choose(null);
  }));
  const zooms = [["+", "Zoom in", 1.5], ["−", "Zoom out", 1 / 1.5], ["Whole", "Show the whole graph", 1e-9]].map(([text, label, factor]) => {
    const button = make("button", { type: "button", "aria-label": label }, text);
    button.addEventListener("click", () => zoomBy(factor));
    return button;
  });
  part.append(make("div", { class: "controls" },
    make("fieldset", {}, make("legend", {}, "Show"), radios.map((radio) => make("label", {}, radio, radio.value))),
    make("fieldset", {}, make("legend", {}, "Edges"), boxes.map((each) => each.label)),
    make("label", {}, "Hide weaker than", slider, percent), make("span", {}, zooms), shown), field, readout);
  new ResizeObserver(() => {
    if (field.clientWidth && field.clientWidth !== state.width) {
      state.width = field.clientWidth;
      render();
    }
  }).observe(field);
  state.width = field.clientWidth || 600;
  render();
  return (at) => {
    if (state.clusters) radios[0].click();
    choose(at);
    field.focus();
  };
}

/** Let the pointer move a zoomed field, and choose what it is let go on without moving. */
function drag(field, state, move, pick) {
  let from = null;
  field.addEventListener("pointerdown", (event) => {
    from = { x: event.clientX - state.dx, y: event.clientY - state.dy, at: [event.clientX, event.clientY], target: event.target };
  });
  field.addEventListener("pointermove", (event) => {
    if (!from || state.zoom <= 1) return;
    Object.assign(state, { dx: event.clientX - from.x, dy: event.clientY - from.y });
    move();
  });
  const stop = (event) => {
    if (from && event.type === "pointerup" && Math.hypot(event.clientX - from.at[0], event.clientY - from.at[1]) < 4) pick(from.target.closest("[data-node]"));
    from = null;
  };
  field.addEventListener("pointerup", stop);
  field.addEventListener("pointerleave", stop);
  field.addEventListener("pointercancel", stop);
}

function chainText(chain, number, many, choose) {
  const hops = chain.map((hop, at) => {
    const button = make("button", { type: "button" }, "Show in the graph");
    button.addEventListener("click", () => choose(hop.node));
    const from = hop.came_from === null ? "" : `From ${hop.came_from} by `;
    return make("li", {}, make("span", { class: "hop-mark", "aria-hidden": "true" }, String(at + 1)),
      make("h3", { dir: "auto" }, hop.citation),
      make("ul", { class: "reasons" }, hop.reasons.map((reason, line) => make("li", { dir: "auto" }, `${line ? "" : from}${reason}`)),
        hop.words.length ? make("li", { dir: "auto" }, `New of the question: ${hop.words.join(", ")}`) : null),
      make("p", { class: "passage short", dir: "auto" }, hop.excerpt),
      make("p", { class: "soft" }, `Score ${fixed(hop.score)} `, button));
  });
  return make("div", {}, many ? make("h3", {}, `Chain ${number + 1}`) : null, make("ol", { class: "chain", role: "list", "aria-label": `Chain ${number + 1}, hop by hop` }, hops));
}

function nodeTable(graph) {
  const degree = graph.nodes.map(() => 0);
  graph.kinds.forEach((kind) => eachEdge(kind, 0, (one, two) => {
    degree[one] += 1;
    degree[two] += 1;
  }));
  const hops = hopNumbers(graph.chains);
  const order = graph.nodes.map((node, at) => at).sort((a, b) => hops.has(b) - hops.has(a) || degree[b] - degree[a]).slice(0, 60);
  return table(`The chains, then the nodes with the most edges: ${order.length} of ${graph.nodes.length.toLocaleString("en")}`,
    ["hop", "passage", "keywords", "edges#"],
    order.map((at) => [hops.get(at) ?? "", graph.nodes[at].citation, graph.nodes[at].keywords.slice(0, 6).join(", "), degree[at]]));
}

function showGraph(part, graph) {
  if (graph.missing) return part.append(...absence(graph));
  const winding = graph.by_document ? " Each round group is a document, its passages winding outwards in reading order." : "";
  part.append(make("p", { class: "soft" }, graph.caption + winding), ...notices(graph.degraded));
  const choose = graphField(part, graph);
  const named = graph.groups.filter((group) => group.tone >= 0).slice(0, 12);
  const rest = graph.groups.length - named.length;
  part.append(make("ul", { class: "legend", "aria-label": "Documents by colour" }, named.map((group) => {
    const swatch = make("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = toneOf(group);
    return make("li", { dir: "auto" }, swatch, `${shortened(group.title, 60)} (${group.nodes})`);
  }), rest ? make("li", {}, make("span", { class: "swatch route-other", "aria-hidden": "true" }), counted(rest, "other document")) : null));
  if (!graph.chains.length) part.append(make("p", { class: "absence" }, "No chain was found."));
  part.append(...graph.chains.map((chain, number) => chainText(chain, number, graph.chains.length > 1, choose)),
    folded("The graph as a table", nodeTable(graph)));
  return undefined;
}
