"""Embedding geometry (figure 3): where the cells of a maze lie in latent space, before and during PPO."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from xlvin.agents.networks import XLVINAgent
from xlvin.envs.maze_world import observe, scenes
from xlvin.errors import XLVINError
from xlvin.experiments.continual_maze import runs_beside
from xlvin.experiments.maze_runs import (
    MAZES,
    TEST_MAZES,
    TRAINING_MAZES,
    MazeRun,
    fresh_agent,
    load_agent,
    run_config,
    train,
)
from xlvin.experiments.workers import Effort
from xlvin.mdp.mazes import Mazes, generate
from xlvin.provenance import provenance
from xlvin.report import tables
from xlvin.report.records import Record, read_all, write
from xlvin.training.devices import usable_device
from xlvin.training.mazes.transe import train_transe

NAME = "embedding-geometry"
SIZE, SEED = 8, 0
# What the paper shows: TransE before any PPO, then after these levels.
LEVELS = (1, 2, 9)
TRANSE_ITERATIONS = 3000
# Mazes over which the order of the embeddings is measured; the first of them is drawn.
MEASURED = 100
STAGES = {"transe": "TransE alone"} | {f"level-{level}": f"after level {level}" for level in (*LEVELS, 10)}


def run(results: Path, effort: Effort | None = None) -> None:
    """Embed a held-out maze with each agent, training those that are missing; writes a record for each."""
    effort = effort or Effort()
    job = MazeRun(run_config("tuned", SIZE, "xlvin"), SEED, runs_beside(results), effort.device)
    device = usable_device(effort.device)
    mazes = _shown_first(generate(4 * MEASURED, SIZE, TEST_MAZES + 2, "test"))
    for stage in STAGES:
        if not effort.wants(f"tuned/{SIZE}x{SIZE}/{stage}"):
            continue
        started = time.perf_counter()
        agent = _agent(job, stage, device)
        if agent is None:
            print(f"{stage}: the agent did not get that far", file=sys.stderr)
            continue
        entry = {"seed": SEED, "score": order(agent, mazes), **picture(agent, mazes[:1])}
        record = Record(
            experiment=NAME,
            version="tuned",
            environment=f"{SIZE}x{SIZE}",
            agent=stage,
            seeds=[entry],
            config=job.plain() | {"transe_iterations": TRANSE_ITERATIONS, "measured_mazes": MEASURED},
            command=f"xlvin reproduce {NAME} --only {stage}",
            seconds=round(time.perf_counter() - started, 1),
            **provenance(),
        )
        write(record, results)
        print(f"{stage}: order {entry['score']:.3f}", file=sys.stderr)


def _agent(job: MazeRun, stage: str, device: torch.device) -> XLVINAgent | None:
    """The agent at a stage, None if its run does not reach it."""
    if stage == "transe":
        agent = cast(XLVINAgent, fresh_agent(job))
        mazes = generate(min(10_000, MAZES[SIZE]), SIZE, TRAINING_MAZES, "train").to(device)
        train_transe(agent, mazes, TRANSE_ITERATIONS)
        return agent
    level = int(stage.rpartition("-")[2])
    if train(job).passed < level:
        return None
    return cast(XLVINAgent, load_agent(job, level).to(device))


def _shown_first(mazes: Mazes) -> Mazes:
    """The measured mazes, first one that shows much: long ways, and many cells."""
    reachable = (mazes.distance > 0).flatten(1).sum(1)
    longest = mazes.distance.flatten(1).amax(1)
    shown = int((reachable * (longest >= 9)).argmax())
    chosen = torch.cat((torch.tensor([shown]), torch.arange(len(mazes))[: MEASURED - 1]))
    return mazes[chosen]


@torch.no_grad()
def order(agent: XLVINAgent, mazes: Mazes) -> float:
    """How well latent distance to the goal sorts cells by moves to it: Spearman's rho, mean over mazes."""
    found = []
    for number in range(len(mazes)):
        place, embedding = _embed(agent, mazes[number])
        distance = mazes.distance[number].flatten()[place].numpy()
        away = (embedding - embedding[distance == 0]).norm(dim=1).numpy()
        others = distance > 0
        if len(np.unique(distance[others])) > 1:
            found.append(float(spearmanr(away[others], distance[others]).statistic))
    if not found:
        raise XLVINError("No maze has cells at different distances; measure more mazes.")
    return round(float(np.mean(found)), 4)


@torch.no_grad()
def picture(agent: XLVINAgent, maze: Mazes) -> dict[str, Any]:
    """The first three principal components of a maze's embeddings, and of where T takes each legal move."""
    place, embedding = _embed(agent, maze)
    device = next(agent.parameters()).device
    centre = embedding.mean(0)
    _, spread, directions = torch.linalg.svd(embedding - centre, full_matrices=False)
    axes = directions[:3].T
    axes = axes * torch.where(axes.sum(0) < 0, -1.0, 1.0)  # a sign that does not depend on the machine
    successors = agent.transition.successors(embedding.to(device)).cpu()  # [M, 8, k]
    target = place.unsqueeze(1) + maze.offsets()  # [M, 8]
    legal = (~maze.walls.flatten())[target] & (maze.distance.flatten()[place] > 0).unsqueeze(1)
    start, move = legal.nonzero(as_tuple=True)
    ends = (successors[start, move] - centre) @ axes
    share = spread.square() / spread.square().sum()
    return {
        "height": maze.shape[0],
        "width": maze.shape[1],
        "walls": maze.walls[0].int().tolist(),
        "cells": place.tolist(),
        "distance": maze.distance.flatten()[place].tolist(),
        "points": _rounded((embedding - centre) @ axes),
        "edges": [[int(a), int(b)] for a, b in zip(start, target[start, move], strict=True)],
        "ends": _rounded(ends),
        "explained": [round(float(part), 4) for part in share[:3]],
    }


def _embed(agent: XLVINAgent, maze: Mazes) -> tuple[Tensor, Tensor]:
    """The cells [M] of one maze from which the goal can be reached, the goal included, and their h [M, k]."""
    device = next(agent.parameters()).device
    place = (maze.distance[0] >= 0).flatten().nonzero().squeeze(-1)
    return place, agent.embed(observe(scenes(maze).to(device), place.to(device))).cpu()


def _rounded(points: Tensor) -> list[list[float]]:
    return [[round(float(x), 4) for x in point] for point in points]


def rows(results: Path) -> list[tables.Row]:
    """One row per stage: rank correlation of latent and maze distance, and the variance that is shown."""
    return [
        {"version": record.version, "environment": record.environment, "agent": record.agent}
        | {"order": record.scores[0], "explained": sum(record.seeds[0]["explained"])}
        for record in _records(results)
    ]


def summary(results: Path) -> str:
    """What the pictures show, as numbers."""
    shown = [
        {
            "stage": STAGES[row["agent"]],
            "rank correlation of latent and maze distance": f"{row['order']:.3f}",
            "variance in three components": f"{100 * row['explained']:.0f} %",
        }
        for row in rows(results)
    ]
    return tables.markdown(shown)


def figure(results: Path, path: Path) -> None:
    """The maze and its embeddings at every stage, as a picture and as a page to turn them on."""
    # late: only figures need matplotlib
    from xlvin.report.geometry_figure import draw
    from xlvin.report.geometry_page import write_page

    stages = [(STAGES[record.agent], record.seeds[0]) for record in _records(results)]
    draw(stages, path)
    write_page(stages, path.with_suffix(".html"))


def _records(results: Path) -> list[Record]:
    found = {record.agent: record for record in read_all(results, NAME)}
    return [found[stage] for stage in STAGES if stage in found]
