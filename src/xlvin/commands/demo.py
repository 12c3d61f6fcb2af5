"""`xlvin demo`: train XLVIN on CartPole from 10 trajectories, score it, draw what it imagines."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro
from numpy.typing import NDArray

from xlvin.agents.base import Agent
from xlvin.envs.environment import Environment
from xlvin.experiments.table1 import PAPER
from xlvin.report.plan_figure import save_plan_figure
from xlvin.report.plan_layout import Plan
from xlvin.report.show_data import steps_off
from xlvin.report.statistics import summarise
from xlvin.report.tables import plain
from xlvin.training.presets import preset
from xlvin.training.progress import training_progress
from xlvin.training.run import EVALUATION, Result, fingerprint, run
from xlvin.training.seeding import derive_seed

ENVIRONMENT, AGENT = "CartPole-v0", "xlvin-imagine"
# TransE's weight: the default teaches the score, not the tree; this one the tree as well, here at no cost.
FAITHFUL = 1.0
ACTIONS = ("push left", "push right")
EXAMPLES = """

examples:
  xlvin demo
  xlvin demo --seeds 20 --trajectories 20
"""


def demo(seeds: int = 5, trajectories: int = 10, episodes: int = 100, folder: Path | None = None) -> None:
    """Train XLVIN on CartPole from 10 trajectories, score it, draw what it imagines.

    Args:
        seeds: How many agents to train side by side, from seeds 0, 1, ...
        trajectories: Episodes that each of them may see; the paper's 10.
        episodes: Fresh episodes on which each is scored.
        folder: Where the run is kept; by default runs/demo-... .
    """
    start = preset(ENVIRONMENT, AGENT)
    budget = replace(start.budget, total=trajectories, per_round=trajectories)
    ppo = replace(start.ppo, transe_coef=FAITHFUL)
    config = replace(start, budget=budget, ppo=ppo, seeds=seeds, evaluation_episodes=episodes)
    folder = folder or Path("runs") / f"demo-{fingerprint(config)}"
    print(
        f"{AGENT} on {ENVIRONMENT}: {seeds} seeds, {trajectories} trajectories each and no data beyond them."
    )
    if (folder / EVALUATION).exists():
        print(f"{folder} holds this run already; remove it to train again.")
    started = time.monotonic()
    with training_progress(config) as progress:
        result = run(config, folder, progress=progress)
    print(_scores(result, time.monotonic() - started))

    best = int(result.scores.argmax())
    seed, picture = result.config.seed_list[best], folder / "plan.png"
    moment, missed = telling_moment(result.agents[best], seed)
    title = f"{ENVIRONMENT}: what {AGENT} imagines (seed {seed}, step {moment.step})"
    save_plan_figure(picture, moment.plan, frame=moment.frame, actions=ACTIONS, title=title)
    print(f"What the agent of seed {seed} imagines: {picture}")
    print(f"(A state that it imagines lies {missed:.1f} real steps from the one that follows.)\n\nTo go on:")
    commands = {
        f"xlvin evaluate {folder}": "score it again",
        f"xlvin show {folder} --seed {seed}": "step through an episode and its plans",
        f"xlvin train {ENVIRONMENT} --seeds {seeds} --agent ppo-imagine": "as much data, no tree",
        f"xlvin train Acrobot-v1 --seeds {seeds}": "another task",
    }
    for command, purpose in commands.items():
        print(f"  {command:<{max(map(len, commands))}}  {purpose}")


def _scores(result: Result, seconds: float) -> str:
    """Every seed, their mean and spread, and what the paper printed."""
    seeds = "  ".join(
        f"{seed}: {score:.1f}" for seed, score in zip(result.config.seed_list, result.scores, strict=True)
    )
    found, printed = summarise(result.scores), PAPER[ENVIRONMENT]
    rows = [
        {
            "": "this run",
            "mean": f"{found['mean']:.1f}",
            "std": f"{found['std']:.1f}",
            "seeds": found["seeds"],
        },
        *(
            {"": f"{name}, as the paper prints it", "mean": f"{mean:.1f}", "std": f"{std:.1f}", "seeds": 5}
            for name, (mean, std) in (("XLVIN-R", printed["xlvin-r"]), ("PPO", printed["ppo"]))
        ),
    ]
    return (
        f"Trained and scored in {seconds:.0f} s: mean return of {result.returns.shape[1]} fresh episodes, "
        f"acting greedily (200 is the most).\n\n{plain(rows)}\n\nthis run, seed by seed:  {seeds}\n"
    )


@dataclass(frozen=True)
class Moment:
    """A state of an episode, and the plan an agent makes there."""

    step: int
    plan: Plan
    frame: NDArray[np.uint8] | None


def telling_moment(agent: Agent, seed: int) -> tuple[Moment, float]:
    """Out of one greedy episode, the moment at which the imagined futures differ most in value.

    Also how far, in real steps, imagined successors are from the real ones, the median over the episode.
    """
    environment = Environment(ENVIRONMENT, {"render_mode": "rgb_array"})
    observation, step, ended = environment.reset(derive_seed(seed, "demo")), 0, False
    widest, moment, missed, before = -np.inf, None, [], None
    while not ended:
        plan = agent.plan(observation)
        if before is not None:
            root, children = before.levels[:2]
            imagined = children.embedding[children.action == root.policy[0].argmax()]
            missed.append(steps_off(imagined, root.embedding[0], plan.levels[0].embedding[0]))
        before = plan
        spread = float(np.ptp(plan.levels[-1].value))
        if spread > widest:
            widest, moment = spread, Moment(step, plan, environment.render())
        observation, _, terminated, truncated = environment.step(int(plan.levels[0].policy[0].argmax()))
        step, ended = step + 1, terminated or truncated
    environment.close()
    assert moment is not None
    return moment, float(np.median([off for off in missed if off is not None]))


def main(argv: list[str]) -> int:
    """Train, print the scores, draw."""
    tyro.cli(demo, args=argv, prog="xlvin demo", description=__doc__ + EXAMPLES)
    return 0
