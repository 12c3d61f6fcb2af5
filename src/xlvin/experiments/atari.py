"""Figure 2: four Atari games from a million transitions, XLVIN against PPO and ATreeC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xlvin.experiments.atari_runs import Job, missing, train_all
from xlvin.experiments.control import batches
from xlvin.experiments.workers import Effort
from xlvin.report import tables
from xlvin.report.records import Record, read_all
from xlvin.report.statistics import mean, summarise
from xlvin.training.presets import preset

NAME, VERSION = "atari", "paper"
SEEDS = 3  # the paper's ten with --seeds 10
GAMES = {
    "freeway": "FreewayNoFrameskip-v4",
    "alien": "AlienNoFrameskip-v4",
    "enduro": "EnduroNoFrameskip-v4",
    "hero": "HeroNoFrameskip-v4",
}
AGENTS = ("ppo", "atreec", "xlvin-r")
COMPARED = ("ppo", "atreec")  # each against xlvin-r
# Published scores of PPO near a million steps, with sticky actions, which these runs do not have.
PUBLISHED_PPO = {"freeway": 22.8, "alien": 758.0, "enduro": 503.0, "hero": 6735.0}


def run(results: Path, effort: Effort | None = None) -> None:
    """Train the seeds that the records do not hold yet, those of a game and agent side by side.

    Several workers take a seed each instead, every cell's first ones first.
    """
    effort, jobs = effort or Effort(), []
    size = 1 if (effort.workers or 1) > 1 else effort.seeds or SEEDS
    for game, environment in GAMES.items():
        for agent in AGENTS:
            if not effort.wants(f"{VERSION}/{game}/{agent}"):
                continue
            config = preset(environment, agent)
            gaps = missing(results, NAME, VERSION, config, effort.seeds or SEEDS)
            for part in (part for gap in gaps for part in batches(gap, size)):
                count = part.seed_list[-1] + 1
                command = (
                    f"xlvin reproduce {NAME} --only {game}/{agent} --seeds {count} --device {effort.device}"
                )
                jobs.append(Job(NAME, VERSION, part, effort.device, command))
    jobs.sort(key=lambda job: job.config.first_seed)
    train_all(results, jobs, effort.workers)


def rows(results: Path) -> list[tables.Row]:
    """One row per game and agent: the mean of the clipped curve over seeds, and the score at the end."""
    found = []
    for (game, agent), record in _records(results).items():
        final = summarise([entry["final"] for entry in record.seeds], interval_of=mean)
        row: dict[str, Any] = {
            "version": VERSION,
            "environment": record.environment,
            "game": game,
            "agent": agent,
        }
        row |= summarise(record.scores, interval_of=mean)
        row |= {f"final_{key}": final[key] for key in ("mean", "std", "low", "high")}
        found.append(row)
    return found


def comparisons(results: Path) -> list[tables.Row]:
    """xlvin-r minus the others in the mean of the clipped curve, paired over seeds."""
    records, found = _records(results), []
    for game in GAMES:
        for other in COMPARED:
            first, second = records.get((game, "xlvin-r")), records.get((game, other))
            if first and second and (pair := tables.paired(first, second)):
                found.append({"game": game, "xlvin-r minus": other} | pair)
    return found


def summary(results: Path) -> str:
    """Areas under the curves, final scores beside published ones, paired differences, as Markdown."""
    table = rows(results)
    area = tables.pivot(table, "game", "agent", _area)
    final = tables.pivot(table, "game", "agent", _final)
    final = [row | {"published PPO": PUBLISHED_PPO[row["game"]]} for row in final]
    parts = [
        "Area under the curve over its length, which is the clipped reward of a game averaged over the run: "
        f"mean over seeds ({tables.interval_title(table)}; seeds).\n\n{tables.markdown(area)}",
        "The game's own score in the last tenth of the run, mean ± standard deviation over seeds.\n\n"
        + tables.markdown(final),
    ]
    if differences := comparisons(results):
        shown = tables.signed(differences, "game", "xlvin-r minus", "seeds", digits=2)
        parts.append(f"Paired differences in the first table.\n\n{tables.markdown(shown)}")
    return "\n\n".join(parts)


def _area(row: tables.Row) -> str:
    """One seed has no interval."""
    if row["seeds"] == 1:
        return f"{row['mean']:.2f} (1)"
    return f"{row['mean']:.2f} ({row['low']:.2f} to {row['high']:.2f}; {row['seeds']})"


def _final(row: tables.Row) -> str:
    spread = f" ± {row['final_std']:.0f}" if row["seeds"] > 1 else ""
    return f"{row['final_mean']:.0f}{spread}"


def figure(results: Path, path: Path) -> None:
    """Clipped reward of a game against transitions, a panel per game."""
    from xlvin.report.curves import Panel, save_curves

    records, panels = _records(results), []
    for game in GAMES:
        of_game = {agent: record for (name, agent), record in records.items() if name == game}
        if of_game:
            curves = {agent: np.array([e["clipped"] for e in r.seeds]) for agent, r in of_game.items()}
            total = next(iter(of_game.values())).config["budget"]["total"]
            panels.append(Panel(game, curves, total))
    save_curves(path, panels, "clipped reward of a game")


def _records(results: Path) -> dict[tuple[str, str], Record]:
    """By game and agent, in the order of `GAMES` and `AGENTS`."""
    found = {(record.environment, record.agent): record for record in read_all(results, NAME)}
    wanted = [(game, environment, agent) for game, environment in GAMES.items() for agent in AGENTS]
    return {(g, a): found[environment, a] for g, environment, a in wanted if (environment, a) in found}
