"""V* predictability (figure 4): how much of V* a linear layer reads from h and from chi, level by level."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from xlvin.agents.mazes import Version
from xlvin.agents.networks import XLVINAgent
from xlvin.envs.maze_world import observe, scenes
from xlvin.experiments.continual_maze import SEEDS, runs_beside
from xlvin.experiments.maze_runs import TEST_MAZES, MazeRun, fresh_agent, load_agent, run_config, train
from xlvin.experiments.workers import Effort
from xlvin.files import replacing
from xlvin.mdp.mazes import Mazes, generate, optimal_values
from xlvin.report import tables
from xlvin.report.records import Record, provenance, read_all, write
from xlvin.report.statistics import mean, summarise
from xlvin.training.trainer import usable_device

NAME = "value-predictability"
SIZE = 8
VERSIONS: tuple[Version, ...] = ("tuned", "discounted", "paper")
# Held-out mazes for the fit, and as many others for its test.
MAZES = 250
LATENTS = {"embedding": "h, from the encoder", "executed": "χ, from the executor"}
# States at a time; a tree hangs on each.
CHUNK = 512


@dataclass(frozen=True, eq=False)
class Readings:
    """What an agent makes of every cell of some mazes from which the goal can be reached."""

    latents: dict[str, Tensor]  # embedding [M, k] and executed [M, w], on the CPU
    value: Tensor  # [M], V*
    distance: Tensor  # [M]
    maze: Tensor  # [M] int64


def run(results: Path, effort: Effort | None = None) -> None:
    """Read agents of the continual maze after each level, training those that are missing; writes records."""
    effort = effort or Effort()
    mazes = generate(2 * MAZES, SIZE, TEST_MAZES + 1, "test")
    for version in VERSIONS:
        runs = [
            MazeRun(run_config(version, SIZE, "xlvin"), seed, runs_beside(results), effort.device)
            for seed in range(SEEDS)
        ]
        runs = [one for one in runs if effort.wants(one.name)]
        started = time.perf_counter()
        measured = {one.seed: measure(one, mazes) for one in runs}
        for latent in LATENTS if runs else ():
            record = Record(
                experiment=NAME,
                version=version,
                environment=f"{SIZE}x{SIZE}",
                agent=latent,
                seeds=[
                    _entry(seed, [level[latent] for level in levels]) for seed, levels in measured.items()
                ],
                config=runs[0].plain() | {"fitted_mazes": MAZES, "tested_mazes": MAZES},
                command=f"xlvin reproduce {NAME} --only {version}/",
                seconds=round(time.perf_counter() - started, 1),
                **provenance(),
            )
            write(record, results)


def measure(one: MazeRun, mazes: Mazes) -> list[dict[str, dict[str, float]]]:
    """For the fresh agent and after each level passed: for each latent, R^2 in every reading of the paper."""
    levels, passed = [], train(one).passed
    for level in range(passed + 1):
        agent = cast(XLVINAgent, load_agent(one, level) if level else fresh_agent(one))
        agent.to(usable_device(one.device))
        discount = agent.config.discount
        fit, test = (read(agent, part, discount) for part in (mazes[:MAZES], mazes[MAZES:]))
        found = {}
        for latent in LATENTS:
            weights = linear_fit(fit.latents[latent], fit.value)
            near = test.distance <= max(level, 1)
            found[latent] = {
                "held_out": r_squared(weights, test.latents[latent], test.value),
                "same_mazes": r_squared(weights, fit.latents[latent], fit.value),
                "up_to_level": r_squared(weights, test.latents[latent][near], test.value[near]),
                "maze_by_maze": maze_by_maze(test.latents[latent], test),
            }
        levels.append(found)
        told = ", ".join(f"{latent} {values['held_out']:.3f}" for latent, values in found.items())
        print(f"{one.name}, level {level}: R^2 {told}", file=sys.stderr)
    return levels


@torch.no_grad()
def read(agent: XLVINAgent, mazes: Mazes, discount: float) -> Readings:
    """h and chi of every cell from which the goal can be reached, but the goal itself."""
    device = next(agent.parameters()).device
    place = (mazes.distance > 0).flatten().nonzero().squeeze(-1)
    empty, embeddings, executed = scenes(mazes).to(device), [], []
    for part in torch.split(place.to(device), CHUNK):
        embeddings.append(agent.embed(observe(empty, part)))
        executed.append(agent.planner(embeddings[-1]))
    latents = {"embedding": torch.cat(embeddings).cpu(), "executed": torch.cat(executed).cpu()}
    value = optimal_values(mazes, discount).flatten()[place]
    return Readings(latents, value, mazes.distance.flatten()[place], place // mazes.cells)


def linear_fit(latents: Tensor, value: Tensor) -> Tensor:
    """Least squares with a constant, [M, k] and [M] -> [k + 1]; the shortest solution where several fit."""
    return cast(Tensor, torch.linalg.lstsq(_with_one(latents), value.double(), driver="gelsd").solution)


def r_squared(weights: Tensor, latents: Tensor, value: Tensor) -> float:
    """1 - sum (v - v^)^2 / sum (v - mean v)^2; zero where all values are the same."""
    target = value.double()
    spread = (target - target.mean()).square().sum()
    error = (target - _with_one(latents) @ weights).square().sum()
    return round(float(1.0 - error / spread), 5) if spread > 1e-12 else 0.0


def maze_by_maze(latents: Tensor, readings: Readings) -> float:
    """R^2 of a fit of its own for each maze, tested on its own cells; the mean over mazes."""
    found = []
    for maze in torch.unique(readings.maze):
        own = readings.maze == maze
        if len(torch.unique(readings.distance[own])) > 1:
            weights = linear_fit(latents[own], readings.value[own])
            found.append(r_squared(weights, latents[own], readings.value[own]))
    return round(sum(found) / len(found), 5)


def _with_one(latents: Tensor) -> Tensor:
    return torch.cat((latents.double(), torch.ones(len(latents), 1, dtype=torch.float64)), 1)


def _entry(seed: int, levels: list[dict[str, float]]) -> dict[str, Any]:
    """One seed: R^2 of the fresh agent (level 0) and after each level; the score is the mean from 1 on."""
    trained = [level["held_out"] for level in levels[1:]] or [levels[0]["held_out"]]
    return {"seed": seed, "score": round(sum(trained) / len(trained), 5), "levels": levels}


def rows(results: Path) -> list[tables.Row]:
    """One row per version, latent and level, over seeds: R^2 on other mazes than those of the fit."""
    found = []
    for record in _records(results):
        for level in range(max(len(entry["levels"]) for entry in record.seeds)):
            reached = [entry["levels"][level] for entry in record.seeds if len(entry["levels"]) > level]
            row: tables.Row = {"version": record.version, "environment": record.environment}
            row |= {"agent": record.agent, "level": level}
            row |= summarise([one["held_out"] for one in reached], interval_of=mean)
            row |= {"interval_of": "mean"}
            for other in ("same_mazes", "up_to_level", "maze_by_maze"):
                row[other] = sum(one[other] for one in reached) / len(reached)
            found.append(row)
    return found


def summary(results: Path) -> str:
    """R^2 by level, and the mean over levels."""
    parts = []
    for version in dict.fromkeys(record.version for record in _records(results)):
        table = [row for row in rows(results) if row["version"] == version]
        pivoted = tables.pivot(table, "level", "agent", _cell)
        means = [
            f"{LATENTS[record.agent]}: {sum(record.scores) / len(record.scores):.3f}"
            for record in _records(results)
            if record.version == version
        ]
        legend = "R² on other mazes / on the mazes of the fit / with a fit for each maze. Level 0: untrained."
        parts.append(
            f"### {version} version\n\n{legend}\n\n{tables.markdown(pivoted)}\n\n"
            f"Mean over levels from 1 on: {'; '.join(means)}."
        )
    return "\n\n".join(parts)


def _cell(row: tables.Row) -> str:
    return f"{row['mean']:.3f} / {row['same_mazes']:.3f} / {row['maze_by_maze']:.3f}"


def figure(results: Path, path: Path) -> None:
    """R^2 against the level, a panel per version."""
    from matplotlib.figure import Figure  # a machine that only trains needs no matplotlib

    table = rows(results)
    versions = list(dict.fromkeys(row["version"] for row in table))
    picture = Figure(figsize=(4.8 * len(versions), 4.0), layout="constrained")
    panels = picture.subplots(1, len(versions), sharey=True, squeeze=False)[0]
    for axes, version in zip(panels, versions, strict=True):
        for latent, colour in (("embedding", "#009E73"), ("executed", "#D55E00")):
            curve = [row for row in table if row["version"] == version and row["agent"] == latent]
            levels = [row["level"] for row in curve]
            axes.plot(levels, [row["mean"] for row in curve], "o-", color=colour, label=LATENTS[latent])
            axes.plot(levels, [row["same_mazes"] for row in curve], ":", color=colour, linewidth=1)
            axes.plot(levels, [row["maze_by_maze"] for row in curve], "--", color=colour, linewidth=1)
        axes.set_title(f"{version} version", loc="left", fontsize=11, fontweight="bold")
        axes.set(
            xlabel="after level (0: before training)", ylim=(min(0.0, *(r["mean"] for r in table)), 1.02)
        )
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("R² of a linear read-out of V*")
    panels[0].legend(frameon=False, title="dotted: on the mazes of the fit\ndashed: a fit for each maze")
    with replacing(path) as temporary:
        picture.savefig(temporary, format="png", dpi=160)


def _records(results: Path) -> list[Record]:
    order = [(version, latent) for version in VERSIONS for latent in LATENTS]
    return sorted(
        read_all(results, NAME), key=lambda record: order.index((cast(Any, record.version), record.agent))
    )
