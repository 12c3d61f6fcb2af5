// The tree: which nodes fit, where they stand, how they look.

// The first `count` nodes are a tree of their own: see show_data.py.
function children(tree, count) {
  const below = Array.from({ length: count }, () => []);
  for (let node = 1; node < count; node++) below[tree.parent[node]].push(node);
  below.forEach((nodes) => nodes.sort((a, b) => tree.action[a] - tree.action[b] || (tree.sample ? tree.sample[a] - tree.sample[b] : 0)));
  return below;
}
// An action, and which of its outcomes where it has several.
function branch(tree, node) {
  return actions[tree.action[node]] + (tree.sample ? ` ·${tree.sample[node] + 1}` : "");
}
function path(tree, node) {
  const taken = [];
  for (; node > 0; node = tree.parent[node]) taken.unshift(branch(tree, node));
  return taken;
}
function likelihood(tree, node) {
  let share = 1;
  for (; node > 0; node = tree.parent[node]) share *= tree.probability[node];
  return share;
}
// As many nodes as leave each leaf a readable row, at least the root's children.
const ROW = 24; // pixels
function readable(tree) {
  const most = Math.max(4, Math.floor(at("tree").clientHeight / ROW));
  const childless = new Set([0]),
    first = tree.parent.filter((parent) => parent <= 0).length;
  let count = 1;
  for (; count < tree.parent.length; count++) {
    childless.delete(tree.parent[count]);
    childless.add(count);
    if (childless.size > most && count >= first) break;
  }
  return count;
}
const shown = (tree) => Math.min(state.nodes ?? readable(tree), tree.parent.length);

function place(tree, count) {
  const below = children(tree, count),
    depth = [0],
    rows = [];
  for (let node = 1; node < count; node++) depth[node] = depth[tree.parent[node]] + 1;
  let free = 0;
  const settle = (node) => {
    const mine = below[node].map(settle);
    if (!mine.length) {
      rows[node] = free;
      free += 1;
    } else {
      rows[node] = (mine[0] + mine.at(-1)) / 2;
      if (below[node].every((child) => !below[child].length)) free += 0.4;
    }
    return rows[node];
  };
  settle(0);
  return { below, depth, rows, total: Math.max(...rows) + 1 };
}
// A radius for each depth: as large as its neighbours allow.
function discs(depth, rows, room) {
  const near = depth.reduce((found, level, node) => {
    (found[level] ??= []).push(rows[node]);
    return found;
  }, []);
  return near.map((places) => {
    const sorted = places.sort((a, b) => a - b),
      gaps = sorted.slice(1).map((row, i) => row - sorted[i]);
    return Math.min(Math.max(0.43 * room * Math.min(...gaps, 9), 2.5), 17);
  });
}
// The path of most probable actions.
function likely(tree, below) {
  const found = new Set([0]);
  for (let node = 0; below[node].length; found.add(node)) {
    node = below[node].reduce((best, child) =>
      tree.probability[child] > tree.probability[best] ? child : best,
    );
  }
  return found;
}

function showTree(tree) {
  const svg = at("tree"),
    { width, height } = blank(svg),
    count = shown(tree);
  const { below, depth, rows, total } = place(tree, count),
    most = Math.max(...depth, 1);
  const values = scale(tree.value.slice(0, count)),
    best = likely(tree, below);
  const room = (height - 34) / total,
    column = (width - 120) / most,
    radii = discs(depth, rows, room);
  const radius = (node) => radii[depth[node]];
  const x = (node) => 30 + column * depth[node],
    y = (node) => 26 + room * (rows[node] + 0.5);
  const letters = Math.min(12, Math.max(7, room * 0.62)),
    labelled = room >= 11;
  for (let level = 0; level <= most; level++) {
    const title = level === 0 ? "now" : `after ${level} action${level > 1 ? "s" : ""}`;
    draw(
      svg,
      "text",
      {
        x: 30 + column * level,
        y: 12,
        "text-anchor": level ? "middle" : "start",
        class: "soft",
        dx: level ? 0 : -14,
      },
      title,
    );
  }
  const order = Array.from({ length: count - 1 }, (_, i) => i + 1).sort((a, b) => best.has(a) - best.has(b));
  for (const node of order) showEdge(node);
  for (let node = 0; node < count; node++) showNode(node);
  at("count").textContent = `${count} of ${tree.size}`;
  at("nodes").max = tree.parent.length;
  at("nodes").min = tree.parent.filter((parent) => parent <= 0).length;
  at("nodes").value = count;
  at("amount").style.visibility =
    tree.parent.length > 1 && at("nodes").min !== at("nodes").max ? "visible" : "hidden";
  at("legend").textContent =
    `Discs are imagined states; colour and number are the critic's value, here ${number(values.low)} (dark) to ${number(values.high)} (bright). ` +
    "Lines are actions, as wide as the actor finds them probable; orange is the most probable path" +
    (subject.beam === null
      ? "."
      : ` among these. The planner followed only ${subject.beam} paths per level, chosen by ${subject.chosen_by} before planning; percentages are the policy after planning.`) +
    (count < tree.size ? " Only the most probable paths are drawn." : "") +
    " Click a state to see it below; drag to move a zoomed tree.";

  function showEdge(node) {
    const parent = tree.parent[node],
      share = tree.probability[node],
      on = best.has(node) ? " likely" : "";
    const [x0, y0, x1, y1] = [x(parent), y(parent), x(node), y(node)],
      bend = x0 + 0.2 * column,
      flat = x0 + 0.36 * column;
    const wide = Math.min(1 + 7 * share, Math.max(room * 0.45, 1));
    draw(svg, "path", {
      class: `edge${on}`,
      "stroke-width": wide,
      d: `M${x0} ${y0}C${bend} ${y0} ${bend} ${y1} ${flat} ${y1}L${x1} ${y1}`,
    });
    if (!labelled) return;
    const space = Math.max(4, Math.floor((0.64 * column - radius(node) - 44) / (letters * 0.56)));
    const text = `${clip(branch(tree, node), space)}  ${percent(share)}`;
    draw(
      svg,
      "text",
      {
        x: x1 - radius(node) - 5,
        y: y1 - wide / 2 - 2.5,
        "text-anchor": "end",
        class: on ? "likely-text" : "soft",
        style: `font-size:${letters}px`,
      },
      text,
    );
  }
  function showNode(node) {
    const fill = colour(values.share(tree.value[node])),
      chosen = state.node === node ? " selected" : "";
    const group = draw(svg, "g", {
      class: `node${best.has(node) ? " likely" : ""}${chosen}`,
      "data-node": node,
    });
    const r = radius(node),
      open = below[node].length > 0,
      hidden = tree.children[node] - below[node].length;
    const value = number(tree.value[node]),
      more = hidden && labelled ? `+${hidden}` : "";
    draw(group, "circle", { cx: x(node), cy: y(node), r, fill: rgb(fill) });
    if (r >= 13) {
      const style = `fill:${dark(fill) ? "#fff" : "#1e2126"};font-size:${value.length > 4 ? 9.5 : 11}px`;
      draw(group, "text", { x: x(node), y: y(node) + 4, "text-anchor": "middle", style }, value);
    } else if (labelled && !open) {
      draw(
        group,
        "text",
        { x: x(node) + r + 5, y: y(node) + 4, style: `font-size:${letters}px` },
        `${value}  ${more}`,
      );
    }
    if (more && (open || r >= 13)) {
      draw(
        group,
        "text",
        { x: x(node) + r - 1, y: y(node) + r + 7, class: "soft", style: "font-size:10px" },
        more,
      );
    }
    hint(group, () => describe(tree, node));
    group.addEventListener("click", () => {
      state.node = node;
      show();
    });
  }
}
function describe(tree, node) {
  const lines = [node ? path(tree, node).join(" → ") : "the state now", `value ${number(tree.value[node])}`];
  if (node)
    lines.push(
      `this action ${percent(tree.probability[node])}, the whole path ${percent(likelihood(tree, node))}`,
    );
  const inside = tree.inner.indexOf(node);
  if (tree.change)
    lines.push(
      inside < 0
        ? "a leaf: the executor leaves it as it is"
        : `changed by the executor: ${ratio(tree.change[inside])} its length`,
    );
  return lines.join("\n");
}

// Zoom: the viewBox of the tree, in pixels of the drawing.
function applyView() {
  const svg = at("tree");
  if (state.view) svg.setAttribute("viewBox", state.view.join(" "));
  svg.classList.toggle("zoomed", state.view !== null);
}
function zoom(factor, centre = null) {
  const svg = at("tree"),
    full = [0, 0, svg.clientWidth, svg.clientHeight],
    [x, y, w, h] = state.view ?? full;
  const width = Math.min(w / factor, full[2]),
    height = Math.min(h / factor, full[3]);
  const [cx, cy] = centre ?? [x + w / 2, y + h / 2];
  state.view =
    width >= full[2] ? null : [cx - ((cx - x) * width) / w, cy - ((cy - y) * height) / h, width, height];
  show();
}
