// Embeddings in their plane of largest variance: the path, and what was imagined around it.

const plane = (() => {
  const visited = [...moments.map((moment) => moment.point), data.last.point];
  const imagined = moments.flatMap((moment) => (moment.tree ? moment.tree.point : []));
  const span = (axis) => {
    const sorted = imagined.map((point) => point[axis]).sort((a, b) => a - b);
    const inner = sorted.length
      ? [sorted[Math.floor(0.02 * sorted.length)], sorted[Math.floor(0.98 * (sorted.length - 1))]]
      : [];
    return range([...visited.map((point) => point[axis]), ...inner]);
  };
  return { visited, x: span(0), y: span(1) };
})();

function showPlane(moment) {
  const svg = at("plane"),
    { width, height } = blank(svg),
    margin = 14;
  const spans = [plane.x, plane.y].map(([low, high]) => Math.max(high - low, 1e-9));
  const unit = Math.min((width - 2 * margin) / spans[0], (height - 2 * margin) / spans[1]);
  const X = (p) => width / 2 + (p[0] - (plane.x[0] + plane.x[1]) / 2) * unit;
  const Y = (p) => height / 2 - (p[1] - (plane.y[0] + plane.y[1]) / 2) * unit;
  const line = (points) =>
    points.map((p, i) => `${i ? "L" : "M"}${X(p).toFixed(1)} ${Y(p).toFixed(1)}`).join("");
  draw(svg, "path", { class: "path", d: line(plane.visited) });
  draw(svg, "path", { class: "past", d: line(plane.visited.slice(0, state.step + 1)) });
  const tree = moment.tree;
  if (tree) {
    const count = shown(tree),
      values = scale(tree.value.slice(0, count));
    for (let node = 1; node < count; node++) {
      const [from, to] = [tree.point[tree.parent[node]], tree.point[node]];
      draw(svg, "line", { class: "imagined", x1: X(from), y1: Y(from), x2: X(to), y2: Y(to) });
    }
    for (let node = count - 1; node > 0; node--) {
      const dot = draw(svg, "circle", {
        cx: X(tree.point[node]),
        cy: Y(tree.point[node]),
        r: tree.parent[node] === 0 ? 5 : 3.2,
        fill: rgb(colour(values.share(tree.value[node]))),
        stroke: css(node === state.node ? "--ink" : "--panel"),
        "stroke-width": node === state.node ? 2 : 0.8,
      });
      hint(dot, () => describe(tree, node));
    }
  }
  const next = plane.visited[state.step + 1];
  draw(svg, "circle", {
    cx: X(next),
    cy: Y(next),
    r: 6.5,
    fill: "none",
    stroke: css("--second"),
    "stroke-width": 2,
  });
  draw(svg, "circle", {
    cx: X(moment.point),
    cy: Y(moment.point),
    r: 6,
    fill: css("--accent"),
    stroke: css("--panel"),
    "stroke-width": 1.5,
  });
  const shares = data.explained.map(percent).join(" and ");
  at("plane-legend").textContent =
    `Orange: h now. Blue ring: h after the action. Line: the episode's path${tree ? "; dots: imagined states, coloured as in the tree" : ""}. ` +
    `The two axes hold ${shares} of the variance.` +
    (moment.missed === null
      ? ""
      : ` The imagined successor lies off the real one by ${ratio(moment.missed)} the real step.`);
}
