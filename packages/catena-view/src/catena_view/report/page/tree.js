/* The document tree, with the keys of the ARIA tree pattern: arrows, Home, End, Enter and the first letter. */

/** Return the items of a flat list of sections, nested by the levels of their headings. */
function nested(sections) {
  const root = { level: -1, children: [] };
  const open = [root];
  for (const section of sections) {
    while (open.at(-1).level >= section.level && open.length > 1) open.pop();
    const item = { ...section, children: [] };
    open.at(-1).children.push(item);
    if (section.level > 0) open.push(item); // text before the first heading has nothing below it
  }
  return root.children;
}

function holds(item) {
  return item.hits.length > 0 || (item.children ?? []).some(holds);
}

function treeItem(item, level, id) {
  const inner = item.children ?? [];
  const held = holds(item);
  const where = [item.where, item.state && item.state !== "indexed" ? item.state : ""].filter(Boolean).join(", ");
  const ranks = item.hits.length ? `, ${item.hits.length === 1 ? "hit" : "hits"} ${item.hits.join(", ")}` : "";
  const badges = item.hits.map((rank) => make("a", { class: "badge", href: `#hit-${rank}`, tabindex: "-1",
    "aria-hidden": "true", title: `hit ${rank}` }, String(rank)));
  const row = make("div", { class: "row" }, make("span", { class: "twist", "aria-hidden": "true" }),
    make("span", { class: "label", dir: "auto", title: item.id ?? null }, item.title,
      where ? [" ", make("span", { class: "where" }, where)] : null),
    level > 1 || !inner.length ? badges : null);
  return make("li", { role: "treeitem", tabindex: "-1", id, class: held ? "held" : null, "aria-level": level,
    "aria-label": `${item.title}${where ? `, ${where}` : ""}${ranks}`, "data-hit": item.hits[0] ?? null,
    "aria-expanded": inner.length ? String(held) : null, "aria-selected": "false" }, row,
  inner.length ? make("ul", { role: "group" }, inner.map((each) => treeItem(each, level + 1, null))) : null);
}

function documentItem(found, number) {
  const size = [found.pages ? counted(found.pages, "page") : "", counted(found.chunks, "chunk")].filter(Boolean);
  const children = found.sections === null ? [] : nested(found.sections);
  return treeItem({ ...found, where: size.join(", "), children }, 1, `document-${number}`);
}

/** Let the keyboard walk the tree; only one item is in the tab order at a time. */
function walkTree(tree) {
  const seen = () => [...tree.querySelectorAll("[role=treeitem]")].filter((item) => item.getClientRects().length);
  const focus = (item) => {
    if (!item) return;
    tree.querySelectorAll("[tabindex='0']").forEach((each) => each.setAttribute("tabindex", "-1"));
    item.setAttribute("tabindex", "0");
    item.focus();
  };
  const open = (item, wanted) => item.setAttribute("aria-expanded", String(wanted));
  const parent = (item) => item.parentElement.closest("[role=treeitem]");
  const keys = {
    ArrowDown: (item, items) => focus(items[items.indexOf(item) + 1]),
    ArrowUp: (item, items) => focus(items[items.indexOf(item) - 1]),
    Home: (item, items) => focus(items[0]),
    End: (item, items) => focus(items.at(-1)),
    ArrowRight: (item, items) => {
      if (item.getAttribute("aria-expanded") === "false") open(item, true);
      else if (item.hasAttribute("aria-expanded")) focus(items[items.indexOf(item) + 1]);
    },
    ArrowLeft: (item) => {
      if (item.getAttribute("aria-expanded") === "true") open(item, false);
      else focus(parent(item));
    },
    " ": (item) => item.hasAttribute("aria-expanded") && open(item, item.getAttribute("aria-expanded") !== "true"),
    Enter: (item) => (item.dataset.hit ? goTo(`hit-${item.dataset.hit}`) : keys[" "](item)),
  };
  tree.addEventListener("keydown", (event) => {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.ctrlKey || event.metaKey || event.altKey) return;
    const items = seen();
    if (event.key in keys) keys[event.key](item, items);
    else if (event.key.length === 1) {
      const after = [...items.slice(items.indexOf(item) + 1), ...items];
      focus(after.find((each) => each.getAttribute("aria-label").toLowerCase().startsWith(event.key.toLowerCase())));
    } else return;
    event.preventDefault();
  });
  tree.addEventListener("click", (event) => {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.target.closest("a")) return;
    keys[" "](item);
    focus(item);
  });
  tree.querySelector("[role=treeitem]")?.setAttribute("tabindex", "0");
  return () => {
    if (!seen().some((item) => item.tabIndex === 0)) seen()[0]?.setAttribute("tabindex", "0");
  };
}

/** Move the reader to a part of the page. */
function goTo(id) {
  const target = document.getElementById(id);
  target?.scrollIntoView({ block: "start" });
  target?.focus({ preventScroll: true });
}

function showTree(part, found) {
  const tree = make("ul", { class: "tree", role: "tree", "aria-label": "Documents and their sections" },
    found.documents.map(documentItem));
  const some = found.documents.some((each) => each.hits.length);
  const only = make("input", { type: "checkbox", checked: some });
  const refit = walkTree(tree);
  const apply = () => {
    tree.classList.toggle("only-hits", only.checked);
    refit();
  };
  only.addEventListener("change", apply);
  const all = (wanted) => () => tree.querySelectorAll("[aria-expanded]").forEach(
    (item) => item.setAttribute("aria-expanded", String(wanted)));
  const buttons = [["Open all", true], ["Close all", false]].map(([text, wanted]) => {
    const button = make("button", { type: "button" }, text);
    button.addEventListener("click", all(wanted));
    return button;
  });
  part.append(make("p", { class: "soft" }, "Numbers are hits. Arrow keys walk and open, Enter goes to a hit."),
    make("div", { class: "controls" }, make("label", {}, only, "Only what holds hits"), buttons), tree);
  if (found.more) part.append(make("p", { class: "soft" }, `… and ${counted(found.more, "more document")}, not listed.`));
  if (!found.documents.length) part.append(make("p", { class: "absence" }, "The library holds no documents."));
  apply();
}
