// What the executor made of the selected node, and of all inner ones.

function features(text) {
  const raw = atob(text),
    found = new Int8Array(raw.length);
  for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
  return found;
}
// Colours from negative through nothing to positive.
function diverging(share) {
  const parse = (name) =>
    css(name)
      .match(/[0-9a-f]{2}/gi)
      .map((part) => parseInt(part, 16));
  const end = parse(share < 0 ? "--low" : "--high"),
    middle = parse("--middle"),
    size = Math.min(Math.abs(share), 1);
  return middle.map((from, i) => Math.round(from + (end[i] - from) * size));
}
function strip(label, values, bound, told) {
  const row = write(at("strips"), "div", { className: "strip" });
  write(row, "span", {}, label);
  const canvas = write(row, "canvas", { width: values.length, height: 1 });
  const pen = canvas.getContext("2d");
  values.forEach((value, i) => {
    pen.fillStyle = rgb(diverging(value / bound));
    pen.fillRect(i, 0, 1, 1);
  });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", told);
}
function showExecution(tree) {
  const inside = tree.inner.indexOf(state.node),
    leaf = inside < 0;
  const name = state.node ? path(tree, state.node).join(" → ") : "the state now";
  at("strips").replaceChildren();
  at("execution-legend").textContent = "";
  at("selected").textContent = `Selected: ${name}, value ${number(tree.value[state.node])}`;
  if (leaf) {
    const told = write(
      at("strips"),
      "p",
      {},
      "A leaf of the tree. It has no children to hear from: it sends its features and keeps them.",
    );
    told.className = "soft";
  } else if (tree.entered) showChange(tree, inside);
  else showScalars(tree, inside);
  if (tree.change) showCells(tree);
}
function showChange(tree, inside) {
  const before = features(tree.entered),
    after = features(tree.executed),
    width = before.length / tree.inner.length;
  const of = (all) => [...all.slice(inside * width, (inside + 1) * width)].map((v) => (v * tree.bound) / 127);
  const [x, chi] = [of(before), of(after)],
    moved = chi.map((value, i) => value - x[i]);
  const [, bound] = range([...x, ...chi, ...moved].map(Math.abs));
  strip("x, what h gives it", x, bound || 1, "features before");
  strip("χ, what comes out", chi, bound || 1, "features after");
  strip("χ − x", moved, bound || 1, "difference");
  at("execution-legend").textContent =
    `Each cell is one of ${width} features; blue is negative, orange positive, up to ±${number(bound)}. ` +
    `The change is ${ratio(tree.change[inside])} the length of x. ` +
    "The last row tells the same of every inner state: the stronger its colour, the more it was changed.";
}
function showScalars(tree, inside) {
  const all = features(tree.executed),
    width = all.length / tree.inner.length;
  const values = [...all.slice(inside * width, (inside + 1) * width)].map((v) => (v * tree.bound) / 127);
  const perAction = width === actions.length;
  strip(perAction ? "Q, backed up" : "backed up", values, tree.bound || 1, values.map(number).join(", "));
  at("execution-legend").textContent =
    (perAction ? values.map((q, i) => `${actions[i]} ${number(q)}`).join(", ") + ". " : "") +
    (subject.executor
      ? "The executor runs on predicted rewards and values here, and what it finds is decoded: a number for each action."
      : "This agent backs scalars up its tree; there is no executor and no embedding that it would change.");
}
function showCells(tree) {
  const row = write(at("strips"), "div", { className: "strip" });
  write(row, "span", {}, "change by state");
  const cells = write(row, "div", { className: "cells" }),
    largest = Math.max(...tree.change, 1e-9);
  tree.inner.forEach((node, i) => {
    if (node >= shown(tree)) return;
    const cell = write(cells, "button", { className: node === state.node ? "selected" : "" });
    cell.setAttribute("aria-label", describe(tree, node));
    cell.style.background = rgb(diverging(tree.change[i] / largest));
    hint(cell, () => describe(tree, node));
    cell.addEventListener("click", () => {
      state.node = node;
      show();
    });
  });
}
