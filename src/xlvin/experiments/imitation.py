"""Imitation of shortest ways in mazes: success and optimality on held-out mazes, beside published numbers."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from xlvin.agents.base import AgentConfig
from xlvin.agents.mazes import LEARNED, make_maze_agent, network_of
from xlvin.agents.registry import executor_hash
from xlvin.experiments.workers import Effort, run_jobs
from xlvin.mdp.mazes import generate
from xlvin.planner.grid.base import GridPlanner
from xlvin.planner.grid.registry import iterations_for, make_planner
from xlvin.planner.grid.vin import VIN
from xlvin.provenance import provenance
from xlvin.randomness import seeded
from xlvin.report import tables
from xlvin.report.records import Record, add, find, read_all
from xlvin.report.statistics import summarise
from xlvin.training.devices import fast_device, usable_device
from xlvin.training.mazes.imitating_agent import ImitatingAgent
from xlvin.training.mazes.imitation import ImitationConfig, imitate, score

NAME = "imitation"
SEEDS = 3
SIZES = (8, 16, 28)
VERSION = "mixed"
# Half of the training mazes are drawn for their long ways.
WINDING = 0.5
# The share of such mazes in each test: plain ones are closest to the published grid-worlds.
TESTS = {"plain": 0.0, "winding": 1.0}
AGENTS = ("vin", "vin-torch", "gvin", "gppn", "cnn", "xlvin", "ppo")
MAZES = {8: 10_000, 16: 25_000, 28: 25_000}
TEST_MAZES, TEST_SEED = 1_000, 12
# An iteration of these carries a value one cell further: long ways need more of them than published.
ONE_BY_ONE = ("vin", "vin-torch", "gvin")

# Ours, found on 8 x 8 mazes of other seeds.
PLANNING = ImitationConfig(epochs=6, batch=32, learning_rate=2e-2)
TRAINING = {
    "vin": PLANNING,
    "vin-torch": PLANNING,
    "gvin": PLANNING,
    "gppn": ImitationConfig(epochs=20, batch=64, learning_rate=1e-3),
    "cnn": ImitationConfig(epochs=20, batch=64, learning_rate=1e-3),
    "xlvin": ImitationConfig(epochs=10, batch=64, cells=8, learning_rate=1e-3),
    "ppo": ImitationConfig(epochs=10, batch=64, cells=8, learning_rate=1e-3),
}

# Per cent, as printed: by Tamar et al. (2016) on their grid-worlds; by Lee et al. (2018), in the README of
# their code, on mazes with eight moves after 25,000 training mazes.
PUBLISHED: list[tables.Row] = [
    {"source": "Tamar et al. 2016", "planner": "VIN", "mazes": "8x8", "success": 99.6, "optimal": ""},
    {"source": "Tamar et al. 2016", "planner": "VIN", "mazes": "16x16", "success": 99.3, "optimal": ""},
    {"source": "Tamar et al. 2016", "planner": "VIN", "mazes": "28x28", "success": 97.0, "optimal": ""},
    {"source": "Lee et al. 2018", "planner": "VIN", "mazes": "15x15", "success": 88.1, "optimal": 85.4},
    {"source": "Lee et al. 2018", "planner": "GPPN", "mazes": "15x15", "success": 99.5, "optimal": 98.9},
    {"source": "Lee et al. 2018", "planner": "VIN", "mazes": "28x28", "success": 81.0, "optimal": 73.3},
    {"source": "Lee et al. 2018", "planner": "GPPN", "mazes": "28x28", "success": 97.9, "optimal": 96.5},
]


@dataclass(frozen=True)
class Cell:
    """One planner of one seed on one kind of maze."""

    size: int
    agent: str
    seed: int
    device: str = "cpu"

    @property
    def environment(self) -> str:
        """Such as 8x8."""
        return f"{self.size}x{self.size}"

    @property
    def name(self) -> str:
        """version/environment/agent."""
        return f"{VERSION}/{self.environment}/{self.agent}"

    def config(self) -> dict[str, Any]:
        """Every number that decides the outcome, the seed apart, as JSON gives them back."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(TRAINING[self.agent])))
        if network := network_of(self.agent):
            plain |= {"network": network, "executor_sha256": executor_hash(AgentConfig(**network))}
        return plain | {
            "mazes": MAZES[self.size],
            "winding": WINDING,
            "iterations": self.iterations(),
            "test_mazes": TEST_MAZES,
            "test_seed": TEST_SEED,
        }

    def iterations(self) -> int:
        """How many iterations VIN, GVIN and GPPN plan."""
        published = iterations_for((self.size, self.size))
        return 2 * published if self.agent in ONE_BY_ONE else published

    def planner(self) -> GridPlanner:
        """The planner before training."""
        size = (self.size, self.size)
        if self.agent in LEARNED:
            return ImitatingAgent(make_maze_agent(self.agent, size, self.seed))
        if self.agent == "vin-torch":
            with seeded(self.seed):
                return VIN(self.iterations(), initialisation="torch")
        return make_planner(self.agent, size, self.iterations(), self.seed)


def cells(effort: Effort) -> list[Cell]:
    """Everything the tables need."""
    found = [
        Cell(size, agent, seed, effort.device)
        for size in SIZES
        for agent in AGENTS
        for seed in range(effort.seeds or SEEDS)
    ]
    return [cell for cell in found if effort.wants(cell.name)]


def run(results: Path, effort: Effort | None = None) -> None:
    """Train and score what is not in the records yet; every planner that is done is kept at once."""
    effort = effort or Effort()
    usable_device(effort.device)
    wanted = [cell for cell in cells(effort) if not _done(results, cell)]
    for number, (cell, entry) in enumerate(run_jobs(train, wanted, effort.workers), 1):
        record = Record(
            experiment=NAME,
            version=VERSION,
            environment=cell.environment,
            agent=cell.agent,
            seeds=[entry],
            config=cell.config(),
            command=f"xlvin reproduce {NAME} --only {cell.name} --device {cell.device}",
            seconds=entry["seconds"],
            **provenance(),
        )
        add(record, results)
        told = ", ".join(f"{entry[f'{test}_success']:.2f} % of {test} mazes" for test in TESTS)
        print(
            f"{number}/{len(wanted)} {cell.name}, seed {cell.seed}: {told}, {entry['seconds']:.0f} s",
            file=sys.stderr,
        )


def train(cell: Cell) -> dict[str, Any]:
    """Train one planner on mazes of its seed and score it on the test mazes; returns a seed's entry.

    The score is the success in plain mazes.
    """
    device = fast_device(cell.device)
    mazes = generate(MAZES[cell.size], cell.size, 1_000 + cell.seed, "train", WINDING).to(device)
    started, worked = time.perf_counter(), time.process_time()
    planner = imitate(cell.planner(), mazes, replace(TRAINING[cell.agent], seed=cell.seed))
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    found: dict[str, float] = {}
    for name, winding in TESTS.items():
        test = generate(TEST_MAZES, cell.size, TEST_SEED, "test", winding).to(device)
        found |= {f"{name}_{kind}": round(share, 3) for kind, share in score(planner, test).items()}
    return {
        "seed": cell.seed,
        "score": found["plain_success"],
        **found,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "device": cell.device,
    }


def _done(results: Path, cell: Cell) -> bool:
    """Whether the record holds this seed, trained with these settings."""
    record = find(results, NAME, VERSION, cell.environment, cell.agent)
    return (
        record is not None
        and record.config == cell.config()
        and cell.seed in {entry["seed"] for entry in record.seeds}
    )


def rows(results: Path) -> list[tables.Row]:
    """One row per test, size and planner: success over seeds, and the mean share of shortest ways."""
    found = []
    for test in TESTS:
        for record in _records(results):
            success, optimal = (
                [float(entry[f"{test}_{kind}"]) for entry in record.seeds] for kind in ("success", "optimal")
            )
            seconds = [float(entry["seconds"]) for entry in record.seeds]
            found.append(
                {"test": test, "environment": record.environment, "agent": record.agent}
                | summarise(success)
                | {"optimal": sum(optimal) / len(optimal), "seconds": sum(seconds) / len(seconds)}
                | {"device": record.seeds[0]["device"]}
            )
    return found


def summary(results: Path) -> str:
    """Held-out success and optimality by kind of maze, then the published numbers, as Markdown."""
    table, parts = rows(results), []
    for test in TESTS:
        shown = [
            {
                "mazes": row["environment"],
                "planner": row["agent"],
                "success (%)": tables.spread(row, 2),
                "optimal (%)": f"{row['optimal']:.2f}",
                "seeds": row["seeds"],
                "training (s)": f"{row['seconds']:.0f} ({row['device']})",
            }
            for row in table
            if row["test"] == test
        ]
        parts.append(f"### Held-out `{test}` mazes\n\n{tables.markdown(shown)}")
    return "\n\n".join([*parts, f"### Published, on the authors' own mazes\n\n{tables.markdown(PUBLISHED)}"])


def figure(results: Path, path: Path) -> None:
    """Held-out success by size of maze, a panel per kind of maze."""
    # late: worker processes import this module and draw nothing
    from xlvin.report.imitation_figure import draw

    draw(_records(results), list(TESTS), path)


def _records(results: Path) -> list[Record]:
    """All records, small mazes first."""

    def place(record: Record) -> tuple[int, int]:
        return int(record.environment.partition("x")[0]), AGENTS.index(record.agent)

    return sorted(read_all(results, NAME), key=place)
