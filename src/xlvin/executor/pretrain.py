"""Pretraining: the executor learns one sweep of value iteration from traces on synthetic MDPs.

With V_t the values after t sweeps, the loss is the mean squared error of one step on them (section 3.2),

    L = E_{MDP, t, s} (X(V_t)(s) - V_{t+1}(s))^2,

so the executor never sees its own predictions while it learns. Whether it can live on them is what validation
measures: it starts from V = 0 on MDPs it has not seen and runs for as many steps as value iteration takes.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Generator

from xlvin.errors import RunFailedError, XLVINError
from xlvin.executor.evaluation import measure
from xlvin.executor.network import Executor, ExecutorConfig
from xlvin.executor.traces import Sweeps, TracedMDPs, trace_family
from xlvin.randomness import seeded

# Called after every optimiser step with (iteration, loss, the latest held-out policy accuracy).
Progress = Callable[[int, float, float], None]


@dataclass(frozen=True)
class PretrainConfig:
    """Everything that decides, with the machine, which bits a pretrained executor has."""

    family: str = "random-deterministic"
    """Family of the training MDPs; the paper's default."""
    states: int = 20
    """States of a training MDP (Deac et al. 2020)."""
    actions: int = 8
    """Actions of a training MDP (Deac et al. 2020)."""
    discount: float = 0.9
    """Gamma of the training MDPs (Deac et al. 2020)."""
    tolerance: float = 1e-4
    """Value iteration stops once no value moves by this much (Deac et al. 2020)."""
    iterations: int = 12_000
    """Optimiser steps; many small ones learn more than few large ones on the same data."""
    batch: int = 16
    """MDPs per optimiser step, each at one sweep of its trace."""
    pool: int = 1_000
    """MDPs traced at a time, replaced by fresh ones once about ten sweeps of each were used."""
    level: float = 8.0
    """Standard deviation of the level around which the V_0(s) of an MDP lie. Value iteration converges from
    any values; from V_0 = 0 it visits hardly a negative one, and the executor would fail on them."""
    spread: float = 3.0
    """Standard deviation of V_0(s) around its level."""
    skew: float = 2.0
    """Sweep t = T u^skew of T is drawn, u ~ U(0, 1); above 1, early sweeps come more often."""
    learning_rate: float = 5e-3
    """Adam's first learning rate (Deac et al. 2020)."""
    beta2: float = 0.99
    """Adam's decay of squared gradients; with the usual 0.999 the error after 4,000 iterations is 25
    times higher."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """How the learning rate falls to zero; without a fall the error after 4,000 iterations is 65 times
    higher."""
    validations: int = 10
    """How often held-out MDPs are measured, evenly over training."""
    validation_count: int = 64
    """Held-out MDPs."""
    seed: int = 0
    """Seed of the initial weights and the MDPs."""
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)
    """The network."""

    def __post_init__(self) -> None:
        counts = ("states", "actions", "iterations", "batch", "pool", "validations", "validation_count")
        for name in counts:
            if getattr(self, name) < 1:
                raise XLVINError(f"The {name} of pretraining are {getattr(self, name)}; give at least 1.")
        for name in ("tolerance", "skew", "learning_rate"):
            if not (getattr(self, name) > 0.0 and math.isfinite(getattr(self, name))):
                raise XLVINError(
                    f"The {name} of pretraining is {getattr(self, name)}; give a positive number."
                )
        for name in ("discount", "beta2"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise XLVINError(f"The {name} of pretraining is {getattr(self, name)}; give 0 <= {name} < 1.")
        for name in ("level", "spread", "seed"):
            if not 0 <= getattr(self, name) < math.inf:
                raise XLVINError(f"The {name} of pretraining is {getattr(self, name)}; give 0 or more.")
        if self.schedule not in ("cosine", "linear", "constant"):
            raise XLVINError(f'Unknown schedule "{self.schedule}"; choose cosine, linear or constant.')

    def trace(self, count: int, generator: Generator) -> TracedMDPs:
        """Draw `count` training MDPs with their traces."""
        size, start = (self.states, self.actions), (self.level, self.spread)
        return trace_family(self.family, count, *size, self.discount, self.tolerance, generator, *start)


PRESETS = {
    "random-deterministic": PretrainConfig(),
    # Trees of depth 6, where the first poles have fallen. Sixteen of them to a batch taught more in the same
    # time than two of depth 10: on other families 99 instead of 95 % of single actions were ranked rightly.
    "cartpole-tree": PretrainConfig(
        family="cartpole-tree", states=127, actions=2, iterations=8_000, pool=500, skew=4.0
    ),
}


def preset(family: str) -> PretrainConfig:
    """The configuration that a family's executor is shipped with, or else the default one."""
    return PRESETS.get(family, PretrainConfig(family=family))


def pretrain(config: PretrainConfig, progress: Progress | None = None) -> tuple[Executor, dict[str, Any]]:
    """Train an executor and measure it on held-out MDPs.

    The same configuration gives the same bits on the same machine. The metrics are the last validation and,
    under "history", all of them.
    """
    with _reproducible(config.seed):
        held_out = HeldOut.draw(config)
        executor = Executor(config.executor)
        sweeps = _sweeps(config)
        betas = (0.9, config.beta2)
        optimiser = torch.optim.Adam(executor.parameters(), config.learning_rate, betas, fused=True)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, partial(_decay, config))
        history = [{"iteration": 0, **held_out.measure(executor)}]
        for iteration in range(1, config.iterations + 1):
            batch = next(sweeps)
            loss = (executor(batch.mdp, batch.before) - batch.after).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            scheduler.step()
            if not math.isfinite(loss.item()):
                raise RunFailedError(
                    f"The loss became {loss.item()} at iteration {iteration}; try a lower learning rate."
                )
            if iteration * config.validations // config.iterations > len(history) - 1:
                history.append({"iteration": iteration, **held_out.measure(executor)})
            if progress:
                progress(iteration, loss.item(), history[-1]["policy_accuracy"])
    return executor, {**history[-1], "history": history}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """MDPs that training never sees."""

    traced: TracedMDPs  # from V_0 = 0, where the executor's own rollout starts
    sweeps: Sweeps  # from V_0 as in training

    @classmethod
    def draw(cls, config: PretrainConfig) -> HeldOut:
        """Of the training family, from a generator of their own."""
        # Torch reads 32 bits of a seed: a large number added to it would change nothing.
        generator = Generator().manual_seed(zlib.crc32(f"held out/{config.seed}".encode()))
        sweeps = config.trace(config.validation_count, generator).draw(
            4 * config.validation_count, config.skew, generator
        )
        return cls(replace(config, level=0.0, spread=0.0).trace(config.validation_count, generator), sweeps)

    def measure(self, executor: Executor) -> dict[str, float]:
        """The one-step error and the accuracy of the greedy policy on self-rolled values."""
        measures = measure(executor, self.traced, self.sweeps)
        return {name: measures[name] for name in ("policy_accuracy", "value_error", "one_step_error")}


def _sweeps(config: PretrainConfig) -> Iterator[Sweeps]:
    """Training batches without end; the pool is renewed after about ten sweeps of each of its MDPs."""
    generator = Generator().manual_seed(config.seed)
    while True:
        traced = config.trace(config.pool, generator)
        for _ in range(max(1, 10 * config.pool // config.batch)):
            yield traced.draw(config.batch, config.skew, generator)


def _decay(config: PretrainConfig, iteration: int) -> float:
    """The factor on the learning rate."""
    done = iteration / config.iterations
    if config.schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * done))
    return 1.0 - done if config.schedule == "linear" else 1.0


@contextmanager
def _reproducible(seed: int) -> Iterator[None]:
    """Seeds the initial weights, and computes on one thread: the order of sums depends on their number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with seeded(seed):
            yield
    finally:
        torch.set_num_threads(threads)
