"""Table 2: CartPole by latent models that plan in an abstract MDP, beside REINFORCE and the agents here."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from xlvin.experiments import control, imagination, table1
from xlvin.experiments.abstract_runs import AbstractConfig
from xlvin.experiments.abstract_runs import run as run_abstract
from xlvin.experiments.workers import Effort, run_jobs
from xlvin.latent.abstraction import SYSTEMS
from xlvin.planner.abstract import PlanConfig
from xlvin.provenance import provenance
from xlvin.report import tables
from xlvin.report.records import Record, add, find, read_all
from xlvin.training.config import Budget, PPOConfig, TrainConfig
from xlvin.training.presets import preset

NAME = "table2"
ENVIRONMENT = "CartPole-v0"
SEEDS = 20
BUDGETS = (100, 10)  # trajectories
REINFORCE = "reinforce"
AGENTS = (REINFORCE, "wm-ae", "ld-ae", "dmdp-h", "prae-1", "prae-5")
BEST = "prae-5"  # each other against it
# From elsewhere, at ten trajectories: experiment, version, agents.
BESIDE = (
    (table1.NAME, "tuned", ("ppo", "atreec", "xlvin-r", "xlvin-cp")),
    (imagination.NAME, imagination.FULL, (imagination.AGENT,)),
)

# As printed in the paper, mean and standard deviation over five seeds; at 100 van der Pol et al.'s.
PAPER = {
    100: {
        REINFORCE: (23.84, 0.88),
        "wm-ae": (114.47, 17.32),
        "ld-ae": (154.73, 50.49),
        "dmdp-h": (72.81, 20.16),
        "prae-5": (171.53, 34.18),
    },
    10: {"ppo": (104.6, 48.5), "xlvin-r": (199.2, 1.6), "xlvin-cp": (195.2, 5.0)},
}

# One step up the policy gradient per trajectory, returns standardised, nothing else learned.
POLICY_GRADIENT = PPOConfig(
    epochs=1, minibatches=1, value_coef=0.0, entropy_coef=0.0, transe_coef=0.0, gae_lambda=1.0
)


@dataclass(frozen=True)
class Job:
    """One system with one amount of data, all seeds."""

    agent: str
    trajectories: int
    seeds: tuple[int, ...]

    @property
    def version(self) -> str:
        """How much data."""
        return f"{self.trajectories}-trajectories"

    @property
    def name(self) -> str:
        """version/environment/agent."""
        return f"{self.version}/{ENVIRONMENT}/{self.agent}"

    @property
    def config(self) -> dict[str, Any]:
        """The settings as a record keeps them."""
        asked = control.resolved(self._training()) if self.agent == REINFORCE else asdict(self._abstract())
        return dict(json.loads(json.dumps(asked)))

    def made(self, stored: dict[str, Any]) -> bool:
        """Whether a record's settings are these; fields that they lack have their defaults."""
        if self.agent == REINFORCE:
            return control.made(self._training(), stored)
        return AbstractConfig(**{**stored, "plan": PlanConfig(**stored["plan"])}) == self._abstract()

    def _abstract(self) -> AbstractConfig:
        return AbstractConfig(self.agent, self.trajectories)

    def _training(self) -> TrainConfig:
        config = preset(ENVIRONMENT, "ppo", "paper")
        budget = Budget(total=self.trajectories, per_round=1)
        return replace(
            config, budget=budget, ppo=POLICY_GRADIENT, first_seed=self.seeds[0], seeds=len(self.seeds)
        )

    def __call__(self) -> list[dict[str, Any]]:
        """Run it: an entry per seed."""
        if self.agent == REINFORCE:
            return control.run_cell(control.Cell(self.version, self._training())).seeds
        returns, steps = run_abstract(self._abstract(), self.seeds)
        return [
            {"seed": seed, "score": round(float(score), 3), "steps": count}
            for seed, score, count in zip(self.seeds, returns.mean(1), steps, strict=True)
        ]


def jobs(effort: Effort) -> list[Job]:
    """Everything the table needs, the longest first."""
    seeds = tuple(range(effort.seeds or SEEDS))
    found = [Job(agent, budget, seeds) for budget in BUDGETS for agent in reversed(AGENTS)]
    return [job for job in found if effort.wants(job.name)]


def run(results: Path, effort: Effort | None = None) -> None:
    """Run what is not in the records yet; every finished system is kept at once."""
    effort = effort or Effort()
    missing = [job for job in jobs(effort) if not _done(results, job)]
    for job, (entries, seconds) in run_jobs(_timed, missing, effort.workers):
        known = _known(results, job)
        record = Record(
            experiment=NAME,
            version=job.version,
            environment=ENVIRONMENT,
            agent=job.agent,
            seeds=entries,
            config=known.config if known else job.config,
            command=f"xlvin reproduce {NAME} --only {job.name}",
            seconds=seconds,
            **provenance(),
        )
        add(record, results)
        mean = sum(record.scores) / len(record.scores)
        print(f"{job.name}: {mean:.1f} in {seconds:.0f} s", file=sys.stderr)


def _timed(job: Job) -> tuple[list[dict[str, Any]], float]:
    started = time.perf_counter()
    return job(), round(time.perf_counter() - started, 1)


def _done(results: Path, job: Job) -> bool:
    """Whether the record holds these seeds, run with these settings."""
    known = _known(results, job)
    return known is not None and set(job.seeds) <= {entry["seed"] for entry in known.seeds}


def _known(results: Path, job: Job) -> Record | None:
    """The job's record, if it was made with these settings."""
    record = find(results, NAME, job.version, ENVIRONMENT, job.agent)
    return record if record and job.made(record.config) else None


def rows(results: Path) -> list[tables.Row]:
    """One row per amount of data and system; `experiment` says whose records they are."""
    return [
        {"experiment": record.experiment, "trajectories": budget} | row
        for (budget, _), record in _records(results).items()
        for row in tables.rows([record])
    ]


def _records(results: Path) -> dict[tuple[int, str], Record]:
    """By trajectories and system, in the table's order; those of other experiments where they exist."""
    known = {(record.version, record.agent): record for record in read_all(results, NAME)}
    found = {
        (budget, agent): known[f"{budget}-trajectories", agent]
        for budget in BUDGETS
        for agent in AGENTS
        if (f"{budget}-trajectories", agent) in known
    }
    for experiment, version, agents in BESIDE:
        for agent in agents:
            if record := find(results, experiment, version, ENVIRONMENT, agent):
                found[10, agent] = record
    return found


def comparisons(results: Path) -> list[tables.Row]:
    """prae-5 minus each other system from the same trajectories, paired over seeds."""
    records, found = _records(results), []
    for budget in BUDGETS:
        best = records.get((budget, BEST))
        for (trajectories, agent), record in records.items():
            if best is None or trajectories != budget or agent == BEST:
                continue
            if pair := tables.paired(best, record):
                found.append({"trajectories": budget, f"{BEST} minus": agent} | pair)
    return found


def summary(results: Path) -> str:
    """Every system beside the paper's numbers, then the paired differences, as Markdown."""
    table = rows(results)
    cells = {(row["trajectories"], row["agent"]): row for row in table}
    lines = []
    for agent in dict.fromkeys(row["agent"] for row in table):
        line: tables.Row = {"system": agent}
        for budget in BUDGETS:
            line[f"{budget} trajectories, printed"] = _printed(budget, agent)
            line[f"{budget} trajectories, here"] = _cell(cells.get((budget, agent)))
        lines.append(line)
    legend = (
        f"Mean ± standard deviation; here over {tables.counted(table)} seeds (interquartile mean; its "
        f"{tables.interval_title(table)}), printed over 5."
    )
    parts = [f"{legend}\n\n{tables.markdown(lines)}"]
    if differences := comparisons(results):
        shown = tables.signed(differences, "trajectories", f"{BEST} minus")
        parts.append(f"### Paired differences over seeds\n\n{tables.markdown(shown)}")
    return "\n\n".join(parts)


def _cell(row: tables.Row | None) -> str:
    return tables.full(row) if row else ""


def _printed(budget: int, agent: str) -> str:
    return "{:.1f} ± {:.1f}".format(*PAPER[budget][agent]) if agent in PAPER[budget] else ""


def figure(results: Path, path: Path) -> None:
    """Every seed of every system, beside the printed means."""
    from xlvin.report.seed_figure import OURS, draw_seeds, new_figure, save_panels

    records = _records(results)
    picture = new_figure(10.5, 4.2)
    names = {budget: [agent for known, agent in records if known == budget] for budget in BUDGETS}
    widths = [max(1, len(names[budget])) for budget in BUDGETS]
    axes = picture.subplots(1, len(BUDGETS), sharey=True, width_ratios=widths)
    for axis, budget in zip(axes, BUDGETS, strict=True):
        scores = {agent: records[budget, agent].scores for agent in names[budget]}
        marks = {agent: mean for agent, (mean, _) in PAPER[budget].items()}
        draw_seeds(axis, scores, names[budget], dict.fromkeys((REINFORCE, *SYSTEMS), OURS), marks)
        axis.set_title(f"{budget} trajectories", fontsize=10)
    axes[0].set_ylabel(f"greedy return, {ENVIRONMENT}")
    save_panels(path, picture, "Every seed, their mean (bar), the printed mean (black)")
