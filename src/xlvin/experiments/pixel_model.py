"""Appendix G: XLVIN on Freeway with a world model that paints pixels. What does it see, and does it help?"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xlvin.agents.base import Agent
from xlvin.agents.pixels import PixelXLVINAgent
from xlvin.envs.atari import AtariGames
from xlvin.errors import XLVINError
from xlvin.experiments import atari
from xlvin.experiments.atari_runs import Job, keep, missing, train
from xlvin.experiments.workers import Effort
from xlvin.files import replacing
from xlvin.latent.pixel_model import newest_frame
from xlvin.report import tables
from xlvin.report.records import Record, find, place, read, read_all
from xlvin.report.statistics import mean, summarise
from xlvin.training.config import TrainConfig
from xlvin.training.presets import preset
from xlvin.training.run import default_folder, open_run
from xlvin.training.seeding import derive_seed, generator

NAME, VERSION, AGENT = "pixel-model", "paper", "xlvin-pixels"
ENVIRONMENT = atari.GAMES["freeway"]
SEEDS = 1
SHOWN = 4  # frames in the figure
STEPS = 200  # of eight games, from which frames are measured


def configuration() -> TrainConfig:
    """XLVIN-R's settings with the other world model."""
    config = preset(ENVIRONMENT, "xlvin-r")
    return replace(config, agent=AGENT, network=replace(config.network, kind="pixels"))


def run(results: Path, effort: Effort | None = None) -> None:
    """Train the seeds that the record does not hold yet, and look at what each has learned to paint."""
    effort = effort or Effort()
    if not effort.wants(f"{VERSION}/freeway/{AGENT}"):
        return
    for part in missing(results, NAME, VERSION, configuration(), effort.seeds or SEEDS):
        command = f"xlvin reproduce {NAME} --seeds {part.seed_list[-1] + 1} --device {effort.device}"
        job = Job(NAME, VERSION, part, effort.device, command)
        record = train(job)
        _, agents = open_run(default_folder(part))
        found = look(results, agents, part)
        keep(results, job, replace(record, seeds=[entry | found[entry["seed"]] for entry in record.seeds]))


def look(results: Path, agents: list[Agent], config: TrainConfig) -> dict[int, dict[str, float]]:
    """What the painted frames of every seed are worth; some of seed 0 are kept for the figure."""
    frames = played_frames(config.environment)
    found = {}
    for agent, seed in zip(agents, config.seed_list, strict=True):
        if not isinstance(agent, PixelXLVINAgent):
            raise XLVINError(f"{config.agent} paints no pixels; train it with network.kind pixels.")
        painted, embedding = paint(agent, frames)
        found[seed] = measure(newest_frame(frames), painted, embedding)
        if seed == 0:
            rows = np.linspace(0, len(frames) - 1, SHOWN).astype(int)
            shown = np.stack((newest_frame(frames)[rows].numpy(), painted[rows].numpy()))
            keep_frames(results, (255 * shown).round().astype(np.uint8))
    return found


def played_frames(environment: str) -> Tensor:
    """Observations [N, 4, 84, 84] of random games, every eighth step."""
    games, draw = AtariGames(environment, 8), generator(0, "pixel model frames")
    seen = games.reset(np.array([derive_seed(0, "pixel model games", number) for number in range(8)]))
    stack, kept = np.zeros((8, 4, 84, 84), np.uint8), []
    for step in range(STEPS):
        stack = np.concatenate((stack[:, 1:], seen.frames[:, None]), 1)
        if step >= 4 and step % 8 == 0:
            kept.append(stack)
        games.send(draw.integers(0, games.actions, 8))
        seen = games.receive()
    games.close()
    return torch.from_numpy(np.concatenate(kept))


@torch.inference_mode()
def paint(agent: PixelXLVINAgent, observations: Tensor) -> tuple[Tensor, Tensor]:
    """The newest frames as the agent paints them [N, 84, 84], and the embeddings [N, k]."""
    embedding = agent.embed(observations)
    return agent.world(embedding).frame, embedding


def measure(frames: Tensor, painted: Tensor, embedding: Tensor) -> dict[str, float]:
    """How much of the foreground is painted, and how far embeddings of different states lie apart.

    The background is every pixel's median; the foreground is where a frame differs from it. `foreground` is
    the squared error there, as a share of what painting the background alone would leave: 1 ignores the
    foreground. `background` is the mean squared error elsewhere. `spread` is the distance of embeddings from
    their mean, over the length of the mean: 0 is a fixed point.
    """
    background = frames.median(0).values
    moving = (frames - background).abs() > 0.1
    error = (painted - frames).square()
    centre = embedding.mean(0)
    spread = (embedding - centre).norm(dim=1).mean() / centre.norm().clamp(min=1e-8)
    return {
        "foreground": round(float(error[moving].sum() / (background - frames).square()[moving].sum()), 4),
        "background": round(float(error[~moving].mean()), 6),
        "spread": round(float(spread), 4),
    }


def keep_frames(results: Path, shown: NDArray[np.uint8]) -> None:
    """Keep frames and their paintings [2, n, 84, 84] beside the record."""
    content = io.BytesIO()
    np.savez_compressed(content, frames=shown)
    with replacing(_frames_path(results)) as temporary:
        temporary.write_bytes(content.getvalue())


def rows(results: Path) -> list[tables.Row]:
    """The record's numbers, and those of XLVIN-R and PPO on Freeway where they are known."""
    found: list[dict[str, Any]] = []
    for agent, record in _compared(results).items():
        row = {"version": VERSION, "environment": ENVIRONMENT, "agent": agent}
        found.append(row | summarise(record.scores, interval_of=mean))
    for name in ("foreground", "background", "spread"):
        values = [entry[name] for entry in _record(results).seeds if name in entry]
        if values:
            found[0][name] = float(np.mean(values))
    return found


def summary(results: Path) -> str:
    """Reward beside XLVIN-R and PPO, and what the painting is worth, as Markdown."""
    table = rows(results)
    title = tables.interval_title(table)
    lines = [
        {
            "agent": row["agent"],
            "clipped reward of a game, averaged over the run": f"{row['mean']:.2f}",
            title: f"{row['low']:.2f} to {row['high']:.2f}" if row["seeds"] > 1 else "",
            "seeds": row["seeds"],
        }
        for row in table
    ]
    parts = [tables.markdown(lines)]
    if "foreground" in table[0]:
        painted = {
            "error on the foreground / error without any foreground": f"{table[0]['foreground']:.3f}",
            "mean squared error on the background": f"{table[0]['background']:.5f}",
            "spread of embeddings / length of their mean": f"{table[0]['spread']:.3f}",
        }
        parts.append(tables.markdown([{"what": key, "value": value} for key, value in painted.items()]))
    return "\n\n".join(parts)


def figure(results: Path, path: Path) -> None:
    """Frames above their paintings, and the learning curve beside XLVIN-R's and PPO's."""
    from xlvin.report.curves import Panel
    from xlvin.report.pixel_figure import save_pixel_figure

    curves = {
        agent: np.array([entry["clipped"] for entry in record.seeds])
        for agent, record in _compared(results).items()
    }
    panel = Panel("freeway", curves, _record(results).config["budget"]["total"])
    with np.load(_frames_path(results)) as kept:
        save_pixel_figure(path, kept["frames"], panel)


def _record(results: Path) -> Record:
    read_all(results, NAME)  # says what to do if there is none
    return read(place(results, NAME, VERSION, ENVIRONMENT, AGENT))


def _compared(results: Path) -> dict[str, Record]:
    """This record first, then those of the same game with other agents, if any."""
    own = _record(results)
    others = (find(results, atari.NAME, atari.VERSION, ENVIRONMENT, agent) for agent in ("xlvin-r", "ppo"))
    return {AGENT: own} | {
        other.agent: other
        for other in others
        if other and other.config["budget"]["total"] == own.config["budget"]["total"]
    }


def _frames_path(results: Path) -> Path:
    return results / NAME / VERSION / ENVIRONMENT / "frames.npz"
