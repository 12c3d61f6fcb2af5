"""Speed of training and acting (CPU time of one thread), side by side in one run.

    python benchmarks/training.py [--json] [--keep] [--rounds 3] [--only seeds]

- PPO on CartPole-v1 against Stable-Baselines3 with equal settings and an equal network (needs xlvin[sb3]);
- five seeds of XLVIN on CartPole-v0 trained together against one after another: in one process, with steps
  recorded and replayed and without, and as commands, each of which starts Python and evaluates;
- `predict` for one observation, XLVIN against PPO.

The two sides of a comparison take turns, so that a busy machine disturbs both alike; the ratios are medians.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from unittest.mock import patch

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

from speed import Measured, cpu_seconds, parser, report
from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import make_agent, named
from xlvin.training import recording
from xlvin.training.config import Budget, PPOConfig, TrainConfig
from xlvin.training.presets import preset
from xlvin.training.trainer import Trainer

HIDDEN, LATENT = 64, 50
ENVIRONMENTS, STEPS, EPOCHS, MINIBATCHES, LEARNING_RATE = 8, 128, 4, 4, 3e-4
TRANSITIONS = 50 * ENVIRONMENTS * STEPS
SEEDS = 5


def train(config: TrainConfig) -> None:
    trainer = Trainer(config)
    while not trainer.finished:
        trainer.train_round()
    trainer.actors.close()


def xlvin_ppo() -> float:
    """CPU seconds for TRANSITIONS."""
    network = AgentConfig(**named("ppo"), hidden=HIDDEN, latent=LATENT, inputs="raw")
    ppo = PPOConfig(epochs=EPOCHS, minibatches=MINIBATCHES, learning_rate=LEARNING_RATE)
    budget = Budget("transitions", TRANSITIONS, STEPS, ENVIRONMENTS)
    return cpu_seconds(lambda: train(TrainConfig("CartPole-v1", "ppo", network, budget, ppo)))


def stable_baselines_ppo() -> float:
    """The same with Stable-Baselines3."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from torch import Tensor, nn

    class Encoder(BaseFeaturesExtractor):
        """Shared layers of the same widths; heads are linear on top of them."""

        def __init__(self, space: object) -> None:
            super().__init__(space, LATENT)  # type: ignore[arg-type]
            self.layers = nn.Sequential(
                nn.Linear(4, 2 * HIDDEN),
                nn.ReLU(),
                nn.Linear(2 * HIDDEN, HIDDEN),
                nn.ReLU(),
                nn.Linear(HIDDEN, LATENT),
            )

        def forward(self, observation: Tensor) -> Tensor:
            return self.layers(observation)

    def work() -> None:
        model = PPO(
            "MlpPolicy",
            make_vec_env("CartPole-v1", ENVIRONMENTS, seed=0),
            learning_rate=LEARNING_RATE,
            n_steps=STEPS,
            batch_size=ENVIRONMENTS * STEPS // MINIBATCHES,
            n_epochs=EPOCHS,
            policy_kwargs={"features_extractor_class": Encoder, "net_arch": []},
            device="cpu",
            seed=0,
        )
        model.learn(TRANSITIONS)

    return cpu_seconds(work)


def together() -> float:
    return cpu_seconds(lambda: train(replace(preset("CartPole-v0", "xlvin-r"), seeds=SEEDS)))


def one_after_another() -> float:
    config = preset("CartPole-v0", "xlvin-r")
    return cpu_seconds(lambda: [train(replace(config, first_seed=seed)) for seed in range(SEEDS)])


def unrecorded(work: Callable[[], float]) -> Callable[[], float]:
    """The same with every step called as PyTorch calls it."""

    def called() -> float:
        with patch.object(recording, "WORTHWHILE", math.inf):
            return work()

    return called


def command(first_seed: int, seeds: int) -> float:
    """CPU seconds of `xlvin train` with a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--first-seed", str(first_seed), "--seeds", str(seeds), "--folder", f"{folder}/run"]
        before = os.times()
        subprocess.run(
            [
                sys.executable,
                "-m",
                "xlvin",
                "train",
                "CartPole-v0",
                "--agent",
                "xlvin-r",
                "--json",
                *arguments,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def predict(name: str, calls: int = 2000) -> Callable[[], float]:
    """CPU seconds of one `predict`."""
    agent = make_agent(name, observation=(4,), actions=2, hidden=HIDDEN, latent=LATENT, depth=2).eval()
    observations = np.random.default_rng(0).normal(size=(calls, 4))
    return lambda: cpu_seconds(lambda: [agent.predict(observation) for observation in observations]) / calls


def compare(
    left: Callable[[], float], right: Callable[[], float], rounds: int
) -> tuple[tuple[float, ...], float, float]:
    """left / right over rounds in which they take turns, and the best seconds of each."""
    left(), right()  # warm up
    pairs = [(left(), right()) for _ in range(rounds)]
    lefts, rights = zip(*pairs, strict=True)
    return tuple(a / b for a, b in pairs), min(lefts), min(rights)


def against_stable_baselines(rounds: int) -> Iterator[Measured]:
    ratios, theirs, ours = compare(stable_baselines_ppo, xlvin_ppo, rounds)
    rates = f"{TRANSITIONS / theirs:,.0f} / {TRANSITIONS / ours:,.0f} transitions/s"
    yield Measured("PPO on CartPole", ratios, "Stable-Baselines3 / ours", bar=">= 3", detail=rates)


def seeds_together(rounds: int) -> Iterator[Measured]:
    what, against = f"XLVIN on CartPole, {SEEDS} seeds in one process", "one after another / together"
    ratios, apart, joint = compare(one_after_another, together, rounds)
    yield Measured(what, ratios, against, bar=">= 3", detail=f"{apart:.2f} s / {joint:.2f} s")
    ratios, apart, joint = compare(unrecorded(one_after_another), unrecorded(together), rounds)
    yield Measured(f"{what}, none recorded", ratios, against, detail=f"{apart:.2f} s / {joint:.2f} s")
    against = "one after another, not recorded / together, recorded"
    ratios, apart, joint = compare(unrecorded(one_after_another), together, rounds)
    yield Measured(f"{what}, and recorded", ratios, against, detail=f"{apart:.2f} s / {joint:.2f} s")


def commands(rounds: int) -> Iterator[Measured]:
    def apart() -> float:
        return sum(command(seed, 1) for seed in range(SEEDS))

    ratios, left, right = compare(apart, lambda: command(0, SEEDS), rounds)
    yield Measured(
        f"XLVIN on CartPole, {SEEDS} seeds by commands",
        ratios,
        f"{SEEDS} commands / one",
        detail=f"{left:.2f} s / {right:.2f} s",
    )


def predicting(rounds: int) -> Iterator[Measured]:
    # Many short turns: a call takes microseconds, a disturbance milliseconds.
    ratios, plan, reflex = compare(predict("xlvin-r"), predict("ppo"), 10 * rounds)
    medians = tuple(map(statistics.median, (ratios[i : i + 10] for i in range(0, len(ratios), 10))))
    yield Measured(
        "predict for one observation, K = 2",
        medians,
        "xlvin-r / ppo",
        bar="<= 3",
        detail=f"{1e6 * plan:.1f} us / {1e6 * reflex:.1f} us",
    )


PARTS: dict[str, Callable[[int], Iterator[Measured]]] = {
    "ppo": against_stable_baselines,
    "seeds": seeds_together,
    "commands": commands,
    "predict": predicting,
}


def main() -> None:
    made = parser(__doc__ or "")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--only", choices=PARTS)
    options = made.parse_args()
    torch.set_num_threads(1)
    chosen = [part for name, part in PARTS.items() if options.only in (None, name)]
    report((row for part in chosen for row in part(options.rounds)), options, "training")


if __name__ == "__main__":
    main()
