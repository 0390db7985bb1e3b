/* Draws the graph: edges as one line per kind, nodes as discs, chains on top; or documents as discs of their size. */

const DASHES = { solid: null, dashed: "5 3", dotted: "1.5 2.5", dashdot: "7 3 1.5 3", dashdotdot: "7 3 1.5 3 1.5 3", long: "11 4" };
const DASHED_MOST = 1500; // of more lines dashes are noise, and slow

/** Return places in pixels for a field of some width. */
function graphScale(width) {
  const height = Math.round(Math.max(300, Math.min(width * 0.625, 720)));
  const rim = 18;
  return { width, height, x: (unit) => rim + unit * (width - 2 * rim), y: (unit) => rim + unit * (height - 2 * rim) };
}

/** Call `visit(one, two, weight)` for each edge of a kind that is at least as strong as wanted. */
function eachEdge(kind, least, visit) {
  const floor = least * kind.most;
  for (let at = 0; at < kind.edges.length; at += 3) {
    if (kind.edges[at + 2] >= floor - 1e-9) visit(kind.edges[at], kind.edges[at + 1], kind.edges[at + 2]);
  }
}

/** Return the line of one kind of edge, and how many edges it has. */
function edgeLine(kind, nodes, scale, least, only) {
  const pieces = [];
  let count = 0;
  eachEdge(kind, least, (one, two) => {
    count += 1;
    if (only !== null && one !== only && two !== only) return;
    const [a, b] = [nodes[one], nodes[two]];
    pieces.push(`M${scale.x(a.x).toFixed(1)} ${scale.y(a.y).toFixed(1)}L${scale.x(b.x).toFixed(1)} ${scale.y(b.y).toFixed(1)}`);
  });
  const name = /^[a-z]+$/.test(kind.kind) ? kind.kind : "";
  const many = pieces.length > DASHED_MOST;
  const line = draw("path", { class: `edges ${name}${only === null ? "" : " near"}`, d: pieces.join(""),
    "stroke-dasharray": many ? null : DASHES[kind.dash], opacity: Math.max(0.1, Math.min(0.5, 4.5 / Math.sqrt(pieces.length + 1))).toFixed(2) });
  return { line, count };
}

function hopArrow(from, to, scale) {
  const [x1, y1, x2, y2] = [scale.x(from.x), scale.y(from.y), scale.x(to.x), scale.y(to.y)];
  const reach = Math.hypot(x2 - x1, y2 - y1) || 1;
  const bow = Math.min(40, reach * 0.22);
  const [cx, cy] = [(x1 + x2) / 2 - ((y2 - y1) / reach) * bow, (y1 + y2) / 2 + ((x2 - x1) / reach) * bow];
  const stop = Math.min(15, reach / 3);
  const last = Math.hypot(x2 - cx, y2 - cy) || 1;
  return draw("path", { class: "hop-arrow", "marker-end": "url(#head)",
    d: `M${x1} ${y1}Q${cx} ${cy} ${x2 - ((x2 - cx) / last) * stop} ${y2 - ((y2 - cy) / last) * stop}` });
}

function arrowHead() {
  return draw("defs", {}, draw("marker", { id: "head", viewBox: "0 0 8 8", refX: "6", refY: "4", markerWidth: "4.5",
    markerHeight: "4.5", orient: "auto-start-reverse" }, draw("path", { class: "arrow-head", d: "M0 0L8 4L0 8z" })));
}

/** Return the numbers of the hops at each node: node -> "2", or "1.2" where there are several chains. */
function hopNumbers(chains) {
  const found = new Map();
  chains.forEach((chain, number) => chain.forEach((hop, at) => {
    const text = chains.length > 1 ? `${number + 1}.${at + 1}` : String(at + 1);
    if (!found.has(hop.node)) found.set(hop.node, text);
  }));
  return found;
}

/** Return the drawing of all nodes. `view` says which kinds, how strong, which node is chosen, and the zoom. */
function nodesDrawing(graph, scale, view) {
  const radius = Math.max(2.2, Math.min(6, 0.42 * Math.sqrt((scale.width * scale.height) / Math.max(graph.nodes.length, 60)) * 0.35));
  const hops = hopNumbers(graph.chains);
  const lines = view.kinds.map((kind) => edgeLine(kind, graph.nodes, scale, view.least, null).line);
  const near = view.chosen === null ? [] : view.kinds.map((kind) => edgeLine(kind, graph.nodes, scale, 0, view.chosen).line);
  const discs = graph.nodes.map((node, at) => {
    const hop = hops.has(at);
    const large = scale.width < 500 || graph.by_document ? 8 : 11;
    const disc = draw("circle", { class: `node${hop ? " hop" : ""}${view.chosen === at ? " chosen" : ""}`,
      cx: scale.x(node.x), cy: scale.y(node.y), r: hop ? large : view.chosen === at ? radius + 3 : radius, fill: view.tone(node.group),
      "data-node": at }, draw("title", {}, `${node.citation}\n${node.excerpt}`));
    return { at, hop, disc };
  });
  const arrows = graph.chains.flatMap((chain) => chain.filter((hop) => hop.came_from !== null)
    .map((hop) => hopArrow(graph.nodes[chain[hop.came_from - 1].node], graph.nodes[hop.node], scale)));
  const numbers = [...hops].map(([at, text]) => draw("text", { class: "hop-number", x: scale.x(graph.nodes[at].x),
    y: scale.y(graph.nodes[at].y), "data-long": text.length > 2 || graph.by_document }, text));
  const titles = graph.by_document ? documentTitles(graph, scale) : [];
  return [lines, near, discs.filter((each) => !each.hop).map((each) => each.disc), arrows,
    discs.filter((each) => each.hop).map((each) => each.disc), numbers, titles];
}

/** Return the titles of documents below their discs, the largest first, as far as they have room. */
function documentTitles(graph, scale) {
  const boxes = graph.groups.map(() => ({ left: Infinity, right: -Infinity, bottom: -Infinity }));
  for (const node of graph.nodes) {
    const box = boxes[node.group];
    const x = scale.x(node.x);
    Object.assign(box, { left: Math.min(box.left, x), right: Math.max(box.right, x), bottom: Math.max(box.bottom, scale.y(node.y)) });
  }
  return graph.groups.map((group, at) => {
    const box = boxes[at];
    const letters = Math.floor((box.right - box.left + 16) / 6.2);
    return letters < 7 ? null : draw("text", { class: "quiet halo", x: (box.left + box.right) / 2,
      y: Math.min(box.bottom + 13, scale.height - 4), "text-anchor": "middle" }, shortened(group.title, letters));
  });
}

/** Return the number of joined pairs between documents, as [one, two, pairs], for the kinds and weights that show. */
function clusterLinks(graph, view) {
  const pairs = new Set();
  for (const kind of view.kinds) eachEdge(kind, view.least, (one, two) => pairs.add(`${one} ${two}`));
  const counts = new Map();
  for (const pair of pairs) {
    const [one, two] = pair.split(" ").map((at) => graph.nodes[at].group).sort((a, b) => a - b);
    if (one !== two) counts.set(`${one} ${two}`, (counts.get(`${one} ${two}`) ?? 0) + 1);
  }
  return [...counts].map(([pair, count]) => [...pair.split(" ").map(Number), count]);
}

/** Return the drawing of documents: discs as large as their chunks are many, lines as wide as their joined pairs. */
function clustersDrawing(graph, scale, view) {
  const most = Math.max(...graph.groups.map((group) => group.nodes));
  const biggest = Math.min(46, (0.8 * Math.min(scale.width, scale.height)) / Math.sqrt(graph.groups.length + 3));
  const radius = (group) => Math.max(3, biggest * Math.sqrt(group.nodes / most));
  const place = (group) => [Math.min(Math.max(scale.x(group.x), biggest), scale.width - biggest), Math.min(Math.max(scale.y(group.y), biggest), scale.height - biggest - 14)];
  const links = clusterLinks(graph, view);
  const widest = Math.max(1, ...links.map(([, , count]) => count));
  const lines = links.map(([one, two, count]) => {
    const [[x1, y1], [x2, y2]] = [place(graph.groups[one]), place(graph.groups[two])];
    return draw("line", { class: "joined", x1, y1, x2, y2, "stroke-width": 1 + 7 * Math.sqrt(count / widest) },
      draw("title", {}, `${graph.groups[one].title} and ${graph.groups[two].title}: ${counted(count, "joined pair")}`));
  });
  const order = graph.groups.map((group, at) => ({ group, at })).sort((a, b) => b.group.nodes - a.group.nodes);
  const discs = order.map(({ group, at }) => draw("circle", { class: `node${view.chosen === at ? " chosen" : ""}`, cx: place(group)[0],
    cy: place(group)[1], r: radius(group), fill: view.tone(at), "data-node": at }, draw("title", {}, `${group.title}: ${counted(group.nodes, "chunk")}`)));
  const letters = scale.width < 500 ? 18 : 34;
  const labels = order.slice(0, scale.width < 500 ? 6 : 14).map(({ group }) => draw("text", { class: "halo", x: Math.min(Math.max(place(group)[0], letters * 3.2), scale.width - letters * 3.2),
    y: place(group)[1] + radius(group) + 13, "text-anchor": "middle" }, `${shortened(group.title, letters)} (${group.nodes})`));
  return [lines, discs, labels];
}
