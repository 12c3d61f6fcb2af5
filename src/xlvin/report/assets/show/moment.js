// The state, the decision, and the curve over the episode.

function showNow(moment) {
  const frame = at("frame");
  at("stage").hidden = moment.frame === null;
  if (moment.frame !== null) {
    frame.src = data.frames[moment.frame];
    frame.onload = () => frame.classList.toggle("small", frame.naturalWidth < 200);
  }
  showOverlay(moment.tree);
  const list = at("observation");
  list.replaceChildren();
  if (moment.frame === null && moment.observation) {
    moment.observation.forEach((value, i) => {
      write(list, "dt", {}, `observation ${i}`);
      write(list, "dd", {}, number(value));
    });
  }
  at("decision").replaceChildren(
    "It takes ",
    write(document.createElement("p"), "strong", {}, actions[moment.action]),
    `; value ${number(moment.value)}.`,
  );
  at("policy").replaceChildren();
  moment.policy.forEach((share, action) => {
    write(at("policy"), "span", {}, clip(actions[action], 16));
    const track = write(at("policy"), "span", { className: "track" });
    write(track, "div", { className: `fill${action === moment.action ? " taken" : ""}` }).style.width =
      `${100 * share}%`;
    write(at("policy"), "span", { className: "number" }, percent(share));
  });
  const sofar = moments.slice(0, state.step + 1).reduce((total, each) => total + each.reward, 0);
  at("reward").textContent = `Reward ${signed(moment.reward)}, so far ${number(sofar)}.`;
}
// On environments that are maps, the tree lies over the map.
function showOverlay(tree) {
  const svg = at("overlay");
  svg.replaceChildren();
  svg.setAttribute("viewBox", "0 0 1 1");
  svg.setAttribute("preserveAspectRatio", "none");
  if (!tree || !tree.place) return;
  const count = shown(tree),
    values = scale(tree.value.slice(0, count)),
    best = likely(tree, children(tree, count));
  for (let node = count - 1; node > 0; node--) {
    const [from, to] = [tree.place[tree.parent[node]], tree.place[node]],
      on = best.has(node);
    draw(svg, "line", {
      x1: from[0],
      y1: from[1],
      x2: to[0],
      y2: to[1],
      stroke: on ? css("--accent") : rgb(colour(values.share(tree.value[node]))),
      "stroke-width": on ? 4 : 1 + 3 * tree.probability[node],
      "stroke-linecap": "round",
      "vector-effect": "non-scaling-stroke",
    });
  }
}

const curveSpan = range(moments.flatMap((moment) => [moment.value, moment.followed]));
const rewardSpan = range([0, ...moments.map((moment) => moment.reward)]);
function showCurve() {
  const svg = at("curve"),
    { width, height } = blank(svg),
    left = 48,
    right = 14,
    floor = height - 44;
  const X = (step) => left + ((width - left - right) * step) / Math.max(last, 1);
  const span = Math.max(curveSpan[1] - curveSpan[0], 1e-9),
    Y = (value) => floor - ((value - curveSpan[0]) / span) * (floor - 12);
  for (const value of new Set(curveSpan)) {
    draw(svg, "line", { x1: left, x2: width - right, y1: Y(value), y2: Y(value), stroke: css("--rule") });
    draw(svg, "text", { x: left - 7, y: Y(value) + 4, "text-anchor": "end", class: "soft" }, number(value));
  }
  const line = (key) =>
    moments
      .map((moment, step) => `${step ? "L" : "M"}${X(step).toFixed(1)} ${Y(moment[key]).toFixed(1)}`)
      .join("");
  draw(svg, "path", {
    d: line("followed"),
    fill: "none",
    stroke: css("--soft"),
    "stroke-width": 1.3,
    "stroke-dasharray": "4 3",
  });
  draw(svg, "path", { d: line("value"), fill: "none", stroke: css("--second"), "stroke-width": 2 });
  const rewards = Math.max(rewardSpan[1] - rewardSpan[0], 1e-9),
    base = height - 6 - (-rewardSpan[0] / rewards) * 26;
  const wide = Math.max(1, Math.min(6, (width - left - right) / moments.length - 1));
  draw(svg, "text", { x: left - 7, y: height - 14, "text-anchor": "end", class: "soft" }, "reward");
  moments.forEach((moment, step) => {
    const tall = (moment.reward / rewards) * 26;
    draw(svg, "rect", {
      x: X(step) - wide / 2,
      width: wide,
      y: Math.min(base, base - tall),
      height: Math.max(Math.abs(tall), 0.5),
      fill: css(moment.reward < 0 ? "--faint" : "--accent"),
      "fill-opacity": 0.75,
    });
  });
  draw(svg, "line", {
    x1: X(state.step),
    x2: X(state.step),
    y1: 4,
    y2: height - 4,
    stroke: css("--ink"),
    "stroke-width": 1.2,
  });
  draw(svg, "circle", { cx: X(state.step), cy: Y(moments[state.step].value), r: 4, fill: css("--second") });
  const rest = subject.end === "terminated" ? "" : ", beyond the last step the critic's own word";
  const unit = `${subject.clipped ? "signs of rewards" : "rewards"} × ${subject.reward_scale}`;
  at("curve-legend").textContent =
    "Blue: the critic's value. Dashed: the return that really followed, discounted by " +
    `${subject.discount} and in the critic's units (${unit})${rest}. Bars: rewards. Click to go to a step.`;
}
