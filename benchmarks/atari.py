"""Speed of training on Atari.

    python benchmarks/atari.py                    on a CPU, against Stable-Baselines3 (CPU time of one thread)
    python benchmarks/atari.py --check            on a GPU, half a minute: is everything as on a CPU?
    python benchmarks/atari.py --device cuda      on a GPU: launches, transitions a second, memory
    python benchmarks/atari.py --json ...         the rows as JSON; with --keep also as records

- PPO on Freeway against Stable-Baselines3 with equal settings and an equal network, taking turns (needs
  xlvin[sb3] and opencv-python-headless, which its wrappers import);
- an update of 256 states of Enduro with K = 2, as a CUDA graph against the same kernels launched one by one;
- transitions a second of XLVIN on Freeway with K = 2, games, learning and all: one seed, several in one
  process, and one in each of several processes, which share a GPU best where NVIDIA's MPS runs
  (`nvidia-cuda-mps-control -d`).
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from threading import Barrier

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from speed import Measured, parser, report
from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import build, named
from xlvin.training.config import Budget, PPOConfig
from xlvin.training.frames import learner as frame_learner
from xlvin.training.frames.learner import FrameLearner, Outcome
from xlvin.training.frames.preset import HIDDEN, KOSTRIKOV, LATENT
from xlvin.training.frames.trainer import FrameTrainer
from xlvin.training.presets import preset

FREEWAY = "FreewayNoFrameskip-v4"
GAMES, STEPS = 8, 128


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    started = clock()
    work()
    return clock() - started


# Against Stable-Baselines3, on a CPU.


def ours(rounds: int) -> float:
    """CPU seconds of PPO on Freeway, without what happens once."""
    config = preset(FREEWAY, "ppo")
    trainer = FrameTrainer(replace(config, budget=replace(config.budget, total=2**20)), threads=1)
    trainer.train_round()
    spent = seconds(lambda: [trainer.train_round() for _ in range(rounds)], time.process_time)
    trainer.close()
    return spent


def theirs(rounds: int) -> float:
    """The same with Stable-Baselines3."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import VecFrameStack

    from xlvin.envs.atari import register
    from xlvin.latent.encoders import ImageEncoder

    register(FREEWAY)

    class Encoder(BaseFeaturesExtractor):
        def __init__(self, space: object) -> None:
            super().__init__(space, LATENT)  # type: ignore[arg-type]
            self.encoder = ImageEncoder((4, 84, 84), LATENT)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return self.encoder(image)

    model = PPO(
        "CnnPolicy",
        VecFrameStack(make_atari_env(FREEWAY, GAMES, seed=0), 4),
        learning_rate=KOSTRIKOV.learning_rate,
        n_steps=STEPS,
        batch_size=GAMES * STEPS // KOSTRIKOV.minibatches,
        n_epochs=KOSTRIKOV.epochs,
        clip_range=KOSTRIKOV.clip,
        clip_range_vf=KOSTRIKOV.clip,
        ent_coef=KOSTRIKOV.entropy_coef,
        policy_kwargs={"features_extractor_class": Encoder, "net_arch": []},
        device="cpu",
    )
    model.learn(GAMES * STEPS)
    more = lambda: model.learn(rounds * GAMES * STEPS, reset_num_timesteps=False)  # noqa: E731
    return seconds(more, time.process_time)


def against_stable_baselines(turns: int, rounds: int = 3) -> Iterator[Measured]:
    pairs = [(theirs(rounds), ours(rounds)) for _ in range(turns)]
    rates = [rounds * GAMES * STEPS / statistics.median(pair[place] for pair in pairs) for place in (0, 1)]
    yield Measured(
        "PPO on Freeway",
        tuple(left / right for left, right in pairs),
        "Stable-Baselines3 / ours",
        bar=">= 1.5",
        detail=f"{rates[0]:,.0f} / {rates[1]:,.0f} transitions per CPU second",
    )


# On a GPU.


def filled_learner(
    agent: str, actions: int, depth: int, device: str, ppo: PPOConfig = KOSTRIKOV
) -> FrameLearner:
    """A learner with a round of random frames behind it."""
    network = AgentConfig(**named(agent), latent=LATENT, hidden=HIDDEN, depth=depth)
    network = replace(network, observation=(4, 84, 84), actions=actions)
    learner = FrameLearner(build(network, 0), ppo, 0, STEPS, GAMES, torch.device(device))
    play(learner)
    return learner


def play(learner: FrameLearner) -> None:
    draw = np.random.default_rng(0)
    learner.begin(draw.random((STEPS + 1, GAMES), dtype=np.float32))
    for step in range(STEPS + 1):
        frames = draw.integers(0, 256, (GAMES, 84, 84), dtype=np.uint8)
        learner.look(frames, np.full(GAMES, min(step, 3), np.uint8))
        learner.chosen()


def outcome() -> Outcome:
    draw, shape = np.random.default_rng(1), (STEPS, GAMES)
    ended = torch.from_numpy(draw.random(shape) < 0.02)
    reward = torch.from_numpy(draw.random(shape, dtype=np.float32))
    return Outcome(reward, ended, ended, torch.ones(shape))


def launches(device: str, repeats: int = 50) -> Iterator[Measured]:
    torch.set_float32_matmul_precision("high")  # as training has it
    learner = filled_learner("xlvin-r", 9, 2, device)
    learner.learn(outcome(), 0, 1e-5)

    def timed(update: Callable[[], object]) -> list[float]:
        def work() -> None:
            with torch.cuda.stream(learner.stream):
                for _ in range(repeats):
                    learner._part.zero_()
                    update()
            torch.cuda.synchronize()

        work()
        return [1e3 * seconds(work) / repeats for _ in range(5)]

    eager, graph = timed(learner._learn), timed(learner._learn_once)
    yield Measured(
        "update of 256 states, Enduro, K = 2",
        tuple(left / right for left, right in zip(eager, graph, strict=True)),
        "launched one by one / CUDA graph",
        bar=">= 3",
        detail=f"{statistics.median(eager):.2f} / {statistics.median(graph):.2f} ms",
    )


def throughput(device: str, seeds: int, rounds: int) -> Iterator[Measured]:
    config = replace(preset(FREEWAY, "xlvin-r"), seeds=seeds)
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    trainer = FrameTrainer(config, device)
    for _ in range(2):
        trainer.train_round()
    spent = seconds(lambda: [trainer.train_round() for _ in range(rounds)])
    trainer.close()
    rate = seeds * rounds * GAMES * STEPS / spent
    case = f"XLVIN on Freeway, K = 2, {seeds} seed{'s' if seeds > 1 else ''}"
    bar = ">= 10000" if seeds > 1 else ""
    yield Measured(f"{case}, all together", (rate,), unit="transitions/s", bar=bar)
    if seeds == 1:
        yield Measured(f"{case}, a million transitions", (1e6 / rate / 60,), unit="minutes", bar="<= 6")
    if torch.device(device).type == "cuda":
        memory = torch.cuda.max_memory_reserved() / 2**30 / seeds
        yield Measured(f"{case}, peak memory of a seed", (memory,), unit="GiB", bar="<= 6")


def play_along(device: str, seed: int, rounds: int, barrier: Barrier) -> None:
    """One of several processes; all begin and end their rounds together."""
    torch.set_num_threads(1)
    trainer = FrameTrainer(replace(preset(FREEWAY, "xlvin-r"), first_seed=seed), device)
    for _ in range(2):
        trainer.train_round()
    barrier.wait()
    for _ in range(rounds):
        trainer.train_round()
    barrier.wait()
    trainer.close()


def crowd(device: str, processes: int, rounds: int) -> Iterator[Measured]:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes + 1, timeout=600)  # seconds, in case that a process dies
    crew = [
        context.Process(target=play_along, args=(device, seed, rounds, barrier)) for seed in range(processes)
    ]
    for process in crew:
        process.start()
    barrier.wait()
    spent = seconds(barrier.wait)
    for process in crew:
        process.join()
    rate = processes * rounds * GAMES * STEPS / spent
    case = f"XLVIN on Freeway, K = 2, {processes} seeds in {processes} processes"
    yield Measured(f"{case}, all together", (rate,), unit="transitions/s", bar=">= 10000")


def check(device: str) -> None:
    """The same rounds on both devices: actions, values, weights after learning; then real games."""
    warnings.simplefilter("error")  # such as that there are no CUDA graphs
    torch.backends.cudnn.allow_tf32 = False
    frame_learner.mixes_precision = lambda device: False
    short = replace(KOSTRIKOV, epochs=1)
    torch.set_num_threads(os.cpu_count() or 1)
    for agent, actions, depth in (("ppo", 3, 0), ("xlvin-r", 9, 2), ("xlvin-r", 18, 1), ("atreec", 9, 2)):
        reference, there = (filled_learner(agent, actions, max(1, depth), d, short) for d in ("cpu", device))
        value, weights = reference._value, reference.learner.stack.flat
        off = (value - there._value.cpu()).abs().max().item()
        agreed = (reference._action == there._action.cpu()).float().mean().item()
        before = weights.clone()
        reference._action.copy_(there._action)
        reference._log_prob.copy_(there._log_prob)
        reference._value.copy_(there._value)
        losses = [learner.learn(outcome(), 0, 2.5e-4) for learner in (reference, there)]
        there.wait()
        moved = weights - before
        apart = (weights - there.learner.stack.flat.cpu()).norm() / moved.norm()
        print(
            f"{agent}, {actions} actions, K {depth}: values {off:.1e} apart, {100 * agreed:.1f} % of actions "
            f"agree, weights moved {moved.norm():.3f}, {100 * apart:.1f} % of it apart; losses "
            f"{losses[0][0]:.5f} and {losses[1][0].item():.5f}"
        )
        assert off < 5e-2, "values differ"
        assert agreed > 0.98, "actions differ"
        assert apart < 0.2, "updates differ"
        assert torch.isfinite(there.learner.stack.flat).all()
    config = replace(preset(FREEWAY, "xlvin-r"), seeds=2, budget=Budget("transitions", 4096, STEPS, GAMES))
    trainer = FrameTrainer(config, device)
    while not trainer.finished:
        metrics = trainer.train_round()
    print({name: np.round(values, 4).tolist() for name, values in metrics.items()})
    trainer.restore(trainer.state())
    trainer.close()
    print("all is well")


def main() -> None:
    made = parser("Speed of training on Atari.")
    made.add_argument("--check", action="store_true", help="compare a GPU with the CPU and stop")
    made.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    made.add_argument("--seeds", type=int, nargs="*", default=[1, 8, 16], help="seeds at once, on a GPU")
    made.add_argument("--processes", type=int, nargs="*", default=[12], help="with a seed each, on a GPU")
    made.add_argument("--rounds", type=int, default=15, help="rounds of 1,024 transitions a seed, on a GPU")
    made.add_argument("--turns", type=int, default=3, help="turns against Stable-Baselines3, on a CPU")
    options = made.parse_args()
    torch.set_num_threads(1)
    if options.check:
        check("cuda" if torch.cuda.is_available() else "cpu")
        return
    if options.device == "cpu":
        rows = against_stable_baselines(options.turns)
    else:
        many = (throughput(options.device, seeds, options.rounds) for seeds in options.seeds)
        crowds = (crowd(options.device, count, options.rounds) for count in options.processes)
        rows = chain(launches(options.device), *many, *crowds)
    report(rows, options, "atari", options.device)


if __name__ == "__main__":
    main()
