"""V* predictability (figure 4): how much of V* a linear layer reads from h and from chi, level by level."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from xlvin.agents.mazes import Version
from xlvin.agents.networks import XLVINAgent
from xlvin.envs.maze_world import observe, scenes
from xlvin.experiments.continual_maze import SEEDS, runs_beside
from xlvin.experiments.maze_runs import (
    TEST_MAZES,
    TRAINING_MAZES,
    MazeRun,
    fresh_agent,
    load_agent,
    run_config,
    train,
)
from xlvin.experiments.workers import Effort
from xlvin.mdp.mazes import Mazes, generate, optimal_values
from xlvin.provenance import provenance
from xlvin.report import tables
from xlvin.report.records import Record, add, find, read_all
from xlvin.report.statistics import mean, summarise
from xlvin.training.devices import fast_device, usable_device

NAME = "value-predictability"
SIZE = 8
# Of the continual maze; after them comes the network of one of them that learned V* itself.
VERSIONS: tuple[Version, ...] = ("tuned", "discounted", "valued", "hindsight", "paper")
# Held-out mazes for the fit, and as many others for its test.
MAZES = 250
TOLD = "told"
LATENTS = {"embedding": "h, from the encoder", "executed": "χ, from the executor"}
# States at a time; a tree hangs on each.
CHUNK = 512
Level = dict[str, dict[str, float]]  # by latent: R^2 in every reading


@dataclass(frozen=True, eq=False)
class Readings:
    """What an agent makes of every cell of some mazes from which the goal can be reached."""

    latents: dict[str, Tensor]  # embedding [M, k] and executed [M, w], on the CPU
    value: Tensor  # [M], V*
    distance: Tensor  # [M]
    maze: Tensor  # [M] int64


@dataclass(frozen=True)
class Teaching:
    """How a network is told V* of training mazes."""

    steps: int = 3000
    batch: int = 1024  # cells of any mazes
    learning_rate: float = 1e-3  # the highest of a one-cycle schedule
    max_grad_norm: float = 0.5


@dataclass(frozen=True)
class Told:
    """The network of a run, from the same first weights, that learns V* instead of acting."""

    run: MazeRun
    teaching: Teaching = Teaching()

    @property
    def name(self) -> str:
        """told/size/agent/seed."""
        return self.run.name.replace(self.run.config.version, TOLD, 1)


def run(results: Path, effort: Effort | None = None) -> None:
    """Read agents after each level of the continual maze, training the missing; skips what is in records."""
    effort = effort or Effort()
    mazes = generate(2 * MAZES, SIZE, TEST_MAZES + 1, "test")
    for version in VERSIONS:
        for one in _runs(version, results, effort.device):
            if effort.wants(one.name) and not _done(results, one, _settings(version)):
                started = time.perf_counter()
                _keep(results, one, _settings(version), measure(one, mazes), started)
    for told in [Told(one) for one in _runs("discounted", results, effort.device)]:
        settings = _settings(TOLD) | {"teaching": asdict(told.teaching)}
        if effort.wants(told.name) and not _done(results, told.run, settings):
            started = time.perf_counter()
            agents = (cast(XLVINAgent, fresh_agent(told.run)), teach(told))
            levels = [read_out(agent, mazes, SIZE * SIZE, told.run.device) for agent in agents]
            _keep(results, told.run, settings, levels, started)


def _runs(version: Version, results: Path, device: str) -> list[MazeRun]:
    config = run_config(version, SIZE, "xlvin")
    return [MazeRun(config, seed, runs_beside(results), device) for seed in range(SEEDS)]


def _settings(version: str) -> dict[str, Any]:
    """What a record's configuration has beside, or instead of, its run's."""
    return {"version": version, "fitted_mazes": MAZES, "tested_mazes": MAZES}


def _keep(results: Path, one: MazeRun, settings: dict[str, Any], levels: list[Level], started: float) -> None:
    for latent in LATENTS:
        known = _known(results, latent, one, settings)
        record = Record(
            experiment=NAME,
            version=settings["version"],
            environment=f"{SIZE}x{SIZE}",
            agent=latent,
            seeds=[_entry(one.seed, [level[latent] for level in levels])],
            config=known.config if known else one.plain() | settings,
            command=f"xlvin reproduce {NAME} --only {settings['version']}/",
            seconds=round(time.perf_counter() - started, 1),
            **provenance(),
        )
        add(record, results)


def _done(results: Path, one: MazeRun, settings: dict[str, Any]) -> bool:
    """Whether the records of all latents hold this seed, made with these settings."""
    known = [_known(results, latent, one, settings) for latent in LATENTS]
    return all(record and _whole(record, one.seed) for record in known)


def _whole(record: Record, seed: int) -> bool:
    """Whether a record holds a seed from a whole run; one that was read before its end says "stopped"."""
    return any(entry["seed"] == seed and not entry.get("stopped") for entry in record.seeds)


def _known(results: Path, latent: str, one: MazeRun, settings: dict[str, Any]) -> Record | None:
    """A latent's record, if it was made with these settings; fields that it lacks have their defaults."""
    record = find(results, NAME, settings["version"], f"{SIZE}x{SIZE}", latent)
    if record is None:
        return None
    run = {name: value for name, value in record.config.items() if name not in settings}
    same = one.made(run | {"version": one.config.version}) and record.config | settings == record.config
    return record if same else None


def measure(one: MazeRun, mazes: Mazes) -> list[Level]:
    """For the fresh agent and after each level passed: for each latent, R^2 in every reading of the paper."""
    levels, passed = [], train(one).passed
    for level in range(passed + 1):
        agent = cast(XLVINAgent, load_agent(one, level) if level else fresh_agent(one))
        levels.append(read_out(agent, mazes, max(level, 1), one.device))
        told = ", ".join(f"{latent} {values['held_out']:.3f}" for latent, values in levels[-1].items())
        print(f"{one.name}, level {level}: R^2 {told}", file=sys.stderr)
    return levels


def read_out(agent: XLVINAgent, mazes: Mazes, nearest: int, device: str) -> Level:
    """R^2 from each latent; `up_to_level` counts test cells up to `nearest` moves from the goal."""
    agent.to(usable_device(device))
    fit, test = (read(agent, part, agent.config.discount) for part in (mazes[:MAZES], mazes[MAZES:]))
    near, found = test.distance <= nearest, {}
    for latent in LATENTS:
        weights = linear_fit(fit.latents[latent], fit.value)
        found[latent] = {
            "held_out": r_squared(weights, test.latents[latent], test.value),
            "same_mazes": r_squared(weights, fit.latents[latent], fit.value),
            "up_to_level": r_squared(weights, test.latents[latent][near], test.value[near]),
            "maze_by_maze": maze_by_maze(test.latents[latent], test),
        }
    return found


def teach(told: Told) -> XLVINAgent:
    """Train the network's value, executor frozen as ever, on V* of all cells of training mazes."""
    config, teaching, device = told.run.config, told.teaching, fast_device(told.run.device)
    agent = cast(XLVINAgent, fresh_agent(told.run)).to(device)
    mazes = generate(config.mazes, SIZE, TRAINING_MAZES, "train").to(device)
    value, empty = optimal_values(mazes, agent.config.discount).flatten(), scenes(mazes)
    places = (mazes.distance > 0).flatten().nonzero().squeeze(-1)
    generator = torch.Generator(device).manual_seed(told.run.seed)
    weights = [weight for weight in agent.parameters() if weight.requires_grad]
    optimiser = torch.optim.Adam(weights, teaching.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, teaching.learning_rate, total_steps=teaching.steps
    )
    for _ in range(teaching.steps):
        drawn = torch.randint(len(places), (teaching.batch,), generator=generator, device=device)
        place = places[drawn]
        loss = (agent(observe(empty, place)).value - value[place]).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, teaching.max_grad_norm)
        optimiser.step()
        schedule.step()
    return agent.eval()


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
            for other in ("same_mazes", "up_to_level", "maze_by_maze"):
                row[other] = sum(one[other] for one in reached) / len(reached)
            found.append(row)
    return found


def summary(results: Path) -> str:
    """R^2 by level, and the mean over levels, of every seed as well."""
    parts = []
    for version in dict.fromkeys(record.version for record in _records(results)):
        table = [row for row in rows(results) if row["version"] == version]
        pivoted = tables.pivot(table, "level", "agent", _cell)
        means = [
            f"{LATENTS[record.agent]}: {sum(record.scores) / len(record.scores):.3f} "
            f"(by seed {', '.join(f'{score:.3f}' for score in record.scores)})"
            for record in _records(results)
            if record.version == version
        ]
        legend = "R² on other mazes / on the mazes of the fit / with a fit for each maze. Level 0: untrained"
        legend += "; 1: told V* of training mazes." if version == TOLD else "."
        parts.append(
            f"### {version} version\n\n{legend}\n\n{tables.markdown(pivoted)}\n\n"
            f"Mean over levels from 1 on: {'; '.join(means)}."
        )
    return "\n\n".join(parts)


def _cell(row: tables.Row) -> str:
    return f"{row['mean']:.3f} / {row['same_mazes']:.3f} / {row['maze_by_maze']:.3f}"


def figure(results: Path, path: Path) -> None:
    """R^2 against the level, a panel per version; what the network reaches that was told V* as a line."""
    # late: only figures need matplotlib
    from xlvin.report.value_predictability_figure import save_predictability_figure

    save_predictability_figure(path, rows(results), LATENTS, TOLD)


def _records(results: Path) -> list[Record]:
    order = [(version, latent) for version in (*VERSIONS, TOLD) for latent in LATENTS]
    return sorted(read_all(results, NAME), key=lambda record: order.index((record.version, record.agent)))
