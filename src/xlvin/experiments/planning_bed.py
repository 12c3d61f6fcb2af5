"""The planning bed: the right action is known in a few states of an MDP and must be planned in all others.

Small tabular MDPs are seen through a random non-linearity. All transitions and rewards are observed, but the
optimal action of only a few states. Nothing in an observation tells the optimal action of another state, so a
policy that does not plan stays at chance there; one that plans can compute it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_provenance
from xlvin.experiments.planning_arms import ABLATIONS, ARMS, PRETRAINED, Arm, Learner, Sizes
from xlvin.experiments.workers import Effort, run_jobs
from xlvin.latent.losses import transe_loss
from xlvin.mdp.families import sample
from xlvin.mdp.tabular import TabularMDP
from xlvin.mdp.value_iteration import optimal_actions, value_iteration
from xlvin.provenance import provenance
from xlvin.randomness import seeded
from xlvin.report import tables
from xlvin.report.records import Record, find, read_all, write
from xlvin.report.statistics import mean, summarise
from xlvin.training.adam import Adam
from xlvin.training.seeding import derive_seed
from xlvin.training.stack import Stack

NAME = "planning-bed"


@dataclass(frozen=True)
class BedConfig:
    """The protocol, but for the number of labels and the depth of the tree."""

    states: int = 32
    actions: int = 4
    discount: float = 0.9
    rewarding: float = 0.3
    """Share of state-action pairs with a reward, which is standard normal; others have none."""
    observation: int = 16
    """Features of an observation tanh(W c), from a random code c of each state."""
    latent: int = 20
    hidden: int = 96
    sharpness: float = 5.0
    """beta: predicted rewards or planned values add to a linear policy's logits with this weight."""
    reward_coef: float = 100.0
    value_coef: float = 100.0
    transe_coef: float = 10.0
    """Weights of the auxiliary losses, the same in every arm; the labels' cross-entropy has weight 1."""
    learning_rate: float = 5e-3
    """Adam's, falling linearly to zero."""
    steps: int = 600
    """Adam's steps, each on all states."""
    label_steps: int = 200
    """The last of them, in which the labels are learned as well: by then there is a model to plan with."""
    seeds: int = 24
    first_seed: int = 0
    """Tuning used seeds from 1,000 on."""

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds themselves."""
        return tuple(range(self.first_seed, self.first_seed + self.seeds))


@dataclass(frozen=True)
class Cell:
    """One arm at one depth with one number of labels."""

    arm: str
    depth: int  # 0 where nothing is planned
    labels: int
    config: BedConfig = BedConfig()
    device: str = "cpu"

    @property
    def name(self) -> str:
        """version/environment/agent, as in the records."""
        return f"depth-{self.depth}/labels-{self.labels}/{self.arm}"


LABELS, DEPTHS = (4, 8, 16), (1, 2, 3, 4)
DEPTH, FEW = 3, 8  # where only one of the two varies, the other is this
DEEP = ("aligned-pretrained", "aligned-random", "paper-pretrained", "scalar-tree")
BEST = "aligned-pretrained"
COMPARED = (
    *(
        (BEST, other)
        for other in ("aligned-random", "reward-head", "paper-pretrained", "none", "scalar-tree")
    ),
    ("paper-pretrained", "paper-random"),
    ("paper-pretrained", "none"),
)


class Problem(NamedTuple):
    """What a learner is given, and what it is held against; for one seed, or stacked [seeds, ...]."""

    observation: Tensor  # [S, o]
    successor: Tensor  # [S, A] int64
    reward: Tensor  # [S, A]
    value: Tensor  # [S], of the uniform policy
    labelled: Tensor  # [M] int64, states whose optimal action is told
    label: Tensor  # [M] int64, that action
    optimal: Tensor  # [S, A] bool, which actions are optimal


def draw_problem(config: BedConfig, labels: int, seed: int) -> Problem:
    """The MDP of a seed; fewer labels are a part of more."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "planning bed"))
    mdp = sample("random-deterministic", 1, config.states, config.actions, config.discount, generator)
    kept = torch.rand(mdp.reward.shape, generator=generator) < config.rewarding
    mdp = TabularMDP.deterministic(mdp.successor.squeeze(-1), mdp.reward * kept, config.discount)
    final = value_iteration(mdp).final
    code = torch.randn(config.states, config.observation, generator=generator)
    mixing = torch.randn(config.observation, config.observation, generator=generator)
    labelled = torch.randperm(config.states, generator=generator)[:labels]
    return Problem(
        observation=(code @ mixing / config.observation**0.5).tanh(),
        successor=mdp.successor[0].squeeze(-1),
        reward=mdp.reward[0],
        value=uniform_value(mdp)[0],
        labelled=labelled,
        label=mdp.action_values(final)[0, labelled].argmax(-1),
        optimal=optimal_actions(mdp, final)[0],
    )


def uniform_value(mdp: TabularMDP) -> Tensor:
    """V of the policy that takes every action equally often: (I - gamma P)^-1 r, [B, S]."""
    transition, reward = mdp.transition().mean(2), mdp.reward.mean(2)
    value: Tensor = torch.linalg.solve(torch.eye(mdp.states) - mdp.discount * transition, reward)
    return value


class ModelLoss(nn.Module):
    """The auxiliary losses, which teach a learner its model."""

    def __init__(self, learner: Learner, config: BedConfig, without: str = "") -> None:
        super().__init__()
        self.learner = learner
        coefficients = {
            "reward": config.reward_coef,
            "value": config.value_coef,
            "transe": config.transe_coef,
        }
        self._coefficients = coefficients | ({without: 0.0} if without else {})

    def forward(self, problem: Problem, negative: Tensor) -> Tensor:
        """The loss [], with a random state s~ for every transition, [S, A]."""
        return self.of_model(self.learner.encoder(problem.observation), problem, negative)

    def of_model(self, h: Tensor, problem: Problem, negative: Tensor) -> Tensor:
        """The same from the states' embeddings [S, k]."""
        model = self.learner.model
        successor = model.transition.successors(h)
        terms = {
            "reward": 0.5 * (model.reward(h) - problem.reward).square().mean(),
            "value": 0.5 * (model.value(h).squeeze(-1) - problem.value).square().mean(),
            "transe": transe_loss(successor, h[problem.successor], h[negative]).mean(),
        }
        return torch.stack([self._coefficients[name] * term for name, term in terms.items()]).sum()


class LabelledLoss(ModelLoss):
    """The same and the cross-entropy of the labels, which teaches the policy."""

    def forward(self, problem: Problem, negative: Tensor) -> Tensor:
        """The loss [], as above."""
        h = self.learner.encoder(problem.observation)
        told = cross_entropy(self.learner.logits(h[problem.labelled]), problem.label)
        return told + self.of_model(h, problem, negative)


def policy(learner: Learner, observation: Tensor) -> Tensor:
    """What the learner would do in every state: logits [S, A]."""
    return learner.logits(learner.encoder(observation))


def solve(cell: Cell, arm: Arm | None = None) -> list[dict[str, Any]]:
    """Train a cell's arm, or another, on every seed, all side by side; an entry of the record for each."""
    config, arm = cell.config, arm or (ARMS | ABLATIONS)[cell.arm]
    problems = [draw_problem(config, cell.labels, seed) for seed in config.seed_list]
    stacked = Problem(*(torch.stack(part).to(cell.device) for part in zip(*problems, strict=True)))
    sizes = Sizes(*shared_sizes(config, cell.depth))
    learners = [fresh(partial(arm.build, sizes), seed) for seed in config.seed_list]
    stack = Stack(learners, cell.device)
    model_loss, labelled_loss = (kind(learners[0], config, arm.without) for kind in (ModelLoss, LabelledLoss))
    adam = Adam(stack.flat, epsilon=1e-8)
    for step, negative in enumerate(_negatives(config)):
        loss = model_loss if step < config.steps - config.label_steps else labelled_loss
        losses = stack.apply(loss, stacked, negative.to(cell.device), prefix="learner.")
        adam.step(stack.gradient(losses.sum()), config.learning_rate * (1.0 - step / config.steps))
    with torch.no_grad():
        logits = stack.call(policy, stacked.observation).cpu()
    return [
        {"seed": seed, **_accuracy(*pair)}
        for seed, *pair in zip(config.seed_list, logits, problems, strict=True)
    ]


def shared_sizes(config: BedConfig, depth: int) -> tuple[int, int, float, int, int, int, float]:
    """The fields of Sizes."""
    found = (config.observation, config.actions, config.discount, depth)
    return *found, config.latent, config.hidden, config.sharpness


def fresh(build: Callable[[], Learner], seed: int) -> Learner:
    """A learner whose weights depend on the seed alone."""
    with seeded(derive_seed(seed, "weights")):
        return build()


def _negatives(config: BedConfig) -> Tensor:
    """A random state for every transition and step, [steps, seeds, S, A]; each seed has its own stream."""
    shape = (config.steps, config.states, config.actions)
    streams = [torch.Generator().manual_seed(derive_seed(seed, "negatives")) for seed in config.seed_list]
    return torch.stack([torch.randint(config.states, shape, generator=stream) for stream in streams], 1)


def _accuracy(logits: Tensor, problem: Problem) -> dict[str, float]:
    """Share of states with an optimal greedy action: the score where it was not told, and where it was."""
    right = problem.optimal.gather(-1, logits.argmax(-1, keepdim=True)).squeeze(-1).float()
    told = torch.zeros_like(right).index_fill(0, problem.labelled, 1.0).bool()
    return {"score": round(right[~told].mean().item(), 6), "labelled": round(right[told].mean().item(), 6)}


def cells(effort: Effort) -> list[Cell]:
    """Everything the page needs."""
    grid = [(arm, _depth(arm, DEPTH), labels) for arm in ARMS for labels in LABELS]
    grid += [(arm, depth, FEW) for arm in DEEP for depth in DEPTHS if depth != DEPTH]
    grid += [(arm, DEPTH, FEW) for arm in ABLATIONS]
    config = BedConfig() if effort.seeds is None else BedConfig(seeds=effort.seeds)
    found = [Cell(*job, config, effort.device) for job in grid]
    return [cell for cell in found if effort.wants(cell.name)]


def run(results: Path, effort: Effort | None = None) -> None:
    """Train and score what is not in the records yet; every finished cell is kept at once."""
    effort = effort or Effort()
    jobs = [cell for cell in cells(effort) if not _done(results, cell)]
    for number, (cell, record) in enumerate(run_jobs(measure, jobs, effort.workers), 1):
        write(record, results)
        told = f"{100 * sum(record.scores) / len(record.scores):.1f} % in {record.seconds:.0f} s"
        print(f"{number}/{len(jobs)} {cell.name}: {told}", file=sys.stderr)


def measure(cell: Cell) -> Record:
    """Solve a cell, and tell all about it."""
    started = time.perf_counter()
    seeds = solve(cell)
    return Record(
        experiment=NAME,
        version=f"depth-{cell.depth}",
        environment=f"labels-{cell.labels}",
        agent=cell.arm,
        seeds=seeds,
        config=_resolved(cell),
        command=f"xlvin reproduce {NAME} --only {cell.name}",
        seconds=round(time.perf_counter() - started, 1),
        **provenance(),
    )


def _resolved(cell: Cell) -> dict[str, Any]:
    """All that decides a cell's result."""
    named = {"depth": cell.depth, "labels": cell.labels}
    return asdict(cell.config) | named | {"executor_sha256": load_provenance(PRETRAINED)["sha256"]}


def _done(results: Path, cell: Cell) -> bool:
    """Whether the record is there, made with these settings and at least as many seeds."""
    record = find(results, NAME, *cell.name.split("/"))
    return record is not None and holds(record, _resolved(cell))


def holds(record: Record, wanted: dict[str, Any]) -> bool:
    """Whether a record has all seeds of a configuration, made with the rest of it."""
    kept = record.config
    return kept == wanted | {"seeds": kept.get("seeds")} and len(record.seeds) >= int(wanted["seeds"])


def rows(results: Path) -> list[tables.Row]:
    """One row per arm, depth and number of labels; low and high bound the mean over seeds."""
    found = [
        {"agent": record.agent, "depth": record.config["depth"], "labels": record.config["labels"]}
        | summarise(record.scores, interval_of=mean)
        for record in _records(results).values()
    ]
    order = [*ARMS, *ABLATIONS]
    return sorted(found, key=lambda row: (order.index(row["agent"]), row["depth"], row["labels"]))


def comparisons(results: Path) -> list[tables.Row]:
    """What one arm is ahead of another by, paired over seeds, in points of accuracy."""
    records = _records(results)
    wanted = [(labels, DEPTH, *pair) for pair in COMPARED for labels in LABELS]
    wanted += [(FEW, depth, BEST, "aligned-random") for depth in DEPTHS]
    wanted += [(FEW, DEPTH, BEST, other) for other in ABLATIONS]
    found = []
    for labels, depth, *pair in dict.fromkeys(wanted):
        first, second = (records[_depth(arm, depth), labels, arm] for arm in pair)
        if (told := tables.paired(first, second)) is not None:
            who = {"labels": labels, "depth": depth, "first": pair[0], "second": pair[1]}
            found.append(who | tables.in_points(told))
    return found


def summary(results: Path) -> str:
    """Accuracy by labels, by depth and by ablation, and what the arms differ by, as Markdown."""
    table, compared = rows(results), comparisons(results)
    base = [row for row in table if row["agent"] in ARMS and row["depth"] in (0, DEPTH)]
    deep = [row for row in table if row["agent"] in DEEP and row["labels"] == FEW]
    ablated = [row for row in table if row["agent"] in (BEST, *ABLATIONS)]
    ablated = [row for row in ablated if (row["depth"], row["labels"]) == (DEPTH, FEW)]
    by_ablation = [{"aligned executor": row["agent"], "accuracy": _cell(row)} for row in ablated]
    named = [row | {"compared": f"{row['first']} - {row['second']}"} for row in compared]
    differences = tables.signed(named, "labels", "depth", "compared", title="points")
    parts = [
        f"Accuracy (%) by number of labels, depth {DEPTH}; mean ± standard deviation over "
        f"{tables.counted(table)} seeds.\n\n{_pivoted(base, 'labels')}",
        f"By depth, {FEW} labels.\n\n{_pivoted(deep, 'depth')}",
        f"Ablations of `{BEST}`, depth {DEPTH}, {FEW} labels.\n\n{tables.markdown(by_ablation)}",
    ]
    if differences:
        parts.append(f"Paired differences over seeds.\n\n{tables.markdown(differences)}")
    return "\n\n".join(parts)


def figure(results: Path, path: Path) -> None:
    """Accuracy by labels, by depth, and without each part."""
    # late: worker processes import this module and draw nothing
    from xlvin.report.bed_figure import save_bed_figure

    save_bed_figure(path, rows(results), DEPTH, FEW, BEST, tuple(ABLATIONS))


def _depth(arm: str, depth: int) -> int:
    """The depth under which the records have it."""
    return depth if (ARMS | ABLATIONS)[arm].plans else 0


def _pivoted(table: list[tables.Row], across: str) -> str:
    named = [row | {across: f"{across} {row[across]}"} for row in table]
    return tables.markdown(tables.pivot(named, "agent", across, _cell))


def _cell(row: tables.Row) -> str:
    return f"{100 * row['mean']:.1f} ± {100 * row['std']:.1f}"


def _records(results: Path) -> dict[tuple[int, int, str], Record]:
    """All records by depth, labels and arm."""
    found = {(r.config["depth"], r.config["labels"], r.agent): r for r in read_all(results, NAME)}
    wanted = [(cell.depth, cell.labels, cell.arm) for cell in cells(Effort())]
    if missing := [key for key in wanted if key not in found]:
        depth, labels, arm = missing[0]
        raise XLVINError(
            f"{len(missing)} records such as depth-{depth}/labels-{labels}/{arm} are missing in {results}; "
            f"run `xlvin reproduce {NAME}`."
        )
    return {key: found[key] for key in wanted}
