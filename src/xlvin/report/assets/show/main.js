// Moving through the episode: `state` is all that changes, `show` draws it.

function show() {
  const moment = moments[state.step];
  if (moment.tree && state.node >= shown(moment.tree)) state.node = 0;
  at("slider").value = state.step;
  at("where").textContent = `step ${state.step + 1} of ${moments.length}`;
  at("tip").hidden = true;
  showNow(moment);
  if (moment.tree) {
    showTree(moment.tree);
    applyView();
    showExecution(moment.tree);
  }
  showPlane(moment);
  showCurve();
}
function go(step) {
  state.step = Math.min(Math.max(step, 0), last);
  show();
  location.replace(`#${state.step + 1}`);
}
function pause() {
  clearInterval(state.timer);
  state.timer = null;
  at("play").textContent = "Play";
}
function play() {
  if (state.timer !== null) return pause();
  if (state.step === last) go(0);
  at("play").textContent = "Pause";
  state.timer = setInterval(
    () => (state.step < last ? go(state.step + 1) : pause()),
    1000 / Number(at("speed").value),
  );
}
const fromAddress = () => Number.parseInt(location.hash.slice(1), 10) - 1;

at("first").addEventListener("click", () => go(0));
at("back").addEventListener("click", () => go(state.step - 1));
at("on").addEventListener("click", () => go(state.step + 1));
at("end").addEventListener("click", () => go(last));
at("play").addEventListener("click", play);
at("speed").addEventListener("change", () => {
  if (state.timer !== null) {
    pause();
    play();
  }
});
at("slider").max = last;
at("slider").addEventListener("input", () => go(Number(at("slider").value)));
at("nodes").addEventListener("input", () => {
  state.nodes = Number(at("nodes").value);
  show();
});
at("closer").addEventListener("click", () => zoom(1.5));
at("farther").addEventListener("click", () => zoom(1 / 1.5));
at("whole").addEventListener("click", () => {
  state.view = null;
  show();
});
at("tree").addEventListener(
  "wheel",
  (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = at("tree").getBoundingClientRect(),
      [x, y, w, h] = state.view ?? [0, 0, box.width, box.height];
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, [
      x + ((event.clientX - box.left) / box.width) * w,
      y + ((event.clientY - box.top) / box.height) * h,
    ]);
  },
  { passive: false },
);
at("tree").addEventListener("pointermove", (event) => {
  if (!state.view || event.buttons !== 1) return;
  const [x, y, w, h] = state.view,
    box = at("tree").getBoundingClientRect();
  state.view = [x - (event.movementX * w) / box.width, y - (event.movementY * h) / box.height, w, h];
  applyView();
});
at("curve").addEventListener("pointerdown", (event) => {
  const box = at("curve").getBoundingClientRect();
  go(Math.round(((event.clientX - box.left - 48) / (box.width - 62)) * last));
});
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select") || event.altKey || event.ctrlKey || event.metaKey) return;
  const moves = {
    ArrowLeft: () => go(state.step - 1),
    ArrowRight: () => go(state.step + 1),
    Home: () => go(0),
    End: () => go(last),
  };
  if (!event.target.matches("button")) moves[" "] = play;
  if (moves[event.key]) {
    event.preventDefault();
    moves[event.key]();
  }
});
addEventListener("hashchange", () => {
  const step = fromAddress();
  if (step >= 0 && step !== state.step) go(step);
});
addEventListener("resize", show);
document.addEventListener("themechange", show);

const total = moments.reduce((sum, moment) => sum + moment.reward, 0);
const ends = {
  terminated: "the environment ended it",
  truncated: "it reached its time limit",
  cut: "it goes on beyond these steps",
};
at("title").textContent = `${subject.environment} · ${subject.agent}, seed ${subject.seed}`;
at("subtitle").textContent =
  `One greedy episode (seed ${subject.episode_seed}): ${moments.length} step${last ? "s" : ""}, return ${number(total)}; ${ends[subject.end]}. ` +
  (subject.state ? `The agent ${subject.state}. ` : "") +
  (subject.executor ? `Executor: ${subject.executor}. ` : "") +
  "Arrow keys step, space plays.";
at("footer").textContent = `Written by xlvin ${subject.versions.xlvin}. This file needs no network.`;
if (!planned) {
  document.querySelector("main").classList.add("treeless");
  at("legend").textContent =
    `A ${subject.agent} agent has no tree: it does not plan, and reads policy and value straight from the embedding h. Train xlvin-r to see a plan here.`;
}
if (["atreec", "vpn"].includes(subject.kind)) at("execution-title").textContent = "What the backup finds";
go(Math.max(fromAddress() || 0, 0));
