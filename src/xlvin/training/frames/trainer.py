"""The training loop for Atari: as `Trainer`, with native games and everything else on the device.

Seeds take turns: while one seed's games run on their threads, the device chooses another one's actions.
Nothing is shared between seeds. A resumed run goes on with the same weights and optimiser and with new games.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from xlvin.agents.base import Agent
from xlvin.agents.registry import build
from xlvin.envs.atari import SIZE, STACK, AtariGames, Finished, Received
from xlvin.errors import RunFailedError, XLVINError
from xlvin.latent.encoders import ImageEncoder
from xlvin.storage import check_tensors
from xlvin.training.config import TrainConfig
from xlvin.training.devices import fast_device
from xlvin.training.frames.learner import FrameLearner, Outcome
from xlvin.training.seeding import derive_seed, generator
from xlvin.training.trainer import Metrics, Progress


class Seat:
    """One seed: its learner, its games, and the round's columns that the host keeps, [T, E]."""

    def __init__(self, learner: FrameLearner, games: AtariGames, start: int) -> None:
        self.learner, self.games = learner, games
        seed, count, shape = learner.seed, games.games, (learner.steps, games.games)
        seeds = [derive_seed(seed, "training games", number, start) for number in range(count)]
        self.seen: Received = games.reset(np.array(seeds))
        self.reward = np.zeros(shape, np.float32)
        self.terminated, self.ended = np.zeros(shape, bool), np.zeros(shape, bool)
        self.weight = np.zeros(shape, np.float32)
        self.finished: list[Finished] = []  # the round's games

    def begin(self, round_: int) -> None:
        """Start a round."""
        stream = generator(self.learner.seed, "training actions", round_)
        shape = (self.learner.steps + 1, self.games.games)
        self.learner.begin(stream.random(shape, dtype=np.float32))
        self.finished = []

    def look(self) -> None:
        """Let the device see the games."""
        self.learner.look(self.seen.frames, self.seen.age)

    def act(self) -> None:
        """Let the games see the device's actions."""
        self.games.send(self.learner.chosen())

    def receive(self, step: int) -> None:
        """Note what the games answered."""
        waiting, seen = self.seen.waiting, self.games.receive()
        self.reward[step] = np.sign(seen.reward) * self.learner.ppo.reward_scale
        # A press that was not the agent's is no transition: it has no weight, and no value flows over it.
        self.terminated[step] = seen.terminated | waiting
        self.ended[step] = seen.terminated | seen.truncated | waiting
        self.weight[step] = ~waiting
        self.finished += seen.finished
        self.seen = seen

    def learn(self, round_: int, rate: float) -> Tensor:
        """The mean loss and its terms, [1 + terms], perhaps still being computed."""
        columns = (self.reward, self.terminated, self.ended, self.weight)
        return self.learner.learn(Outcome(*map(torch.from_numpy, columns)), round_, rate)


class FrameTrainer:
    """Trains `config.seeds` agents on an Atari game, one round at a time."""

    light = False  # a copy of the whole state takes as long as some steps

    def __init__(self, config: TrainConfig, device: torch.device | str = "cpu", threads: int = 0) -> None:
        check(config)
        self.device = fast_device(device)
        budget = config.budget
        self._games = [AtariGames(config.environment, budget.actors, threads) for _ in config.seed_list]
        network = replace(
            config.network,
            observation=(STACK, SIZE, SIZE),
            given=(STACK, SIZE, SIZE),
            image="uint8",
            actions=self._games[0].actions,
            discount=config.ppo.discount,
        )
        self.config = config = replace(config, network=network)
        members = [build(network, derive_seed(seed, "weights")) for seed in config.seed_list]
        self.learners = [
            FrameLearner(member, config.ppo, seed, budget.steps, budget.actors, self.device)
            for member, seed in zip(members, config.seed_list, strict=True)
        ]
        self.agent: Agent = self.learners[0].agent
        self._seats: list[Seat] = []  # filled when the first round begins: a checkpoint may come before
        self.round = 0
        self.steps = np.zeros(config.seeds, dtype=np.int64)

    @property
    def finished(self) -> bool:
        """Whether the data budget is spent."""
        return self.round >= self.config.budget.rounds

    def train_round(self, progress: Progress | None = None) -> Metrics:
        """Collect one round of data and learn from it; returns what happened."""
        if not self._seats:
            pairs = zip(self.learners, self._games, strict=True)
            self._seats = [Seat(learner, games, self.round) for learner, games in pairs]
        self._collect()
        self.steps += self.config.budget.steps * self.config.budget.actors
        metrics = self._collected()
        if progress:
            progress(self.round, 1, metrics)  # the device does not say when an epoch is over
        rate = self.config.ppo.learning_rate
        if self.config.ppo.anneal:
            rate *= 1.0 - self.round / self.config.budget.rounds
        losses = [seat.learn(self.round, rate) for seat in self._seats]
        for learner in self.learners:
            learner.wait()
        means = torch.stack(losses).cpu().numpy()
        names = ("total", *self.learners[0].learner.objective.names)
        metrics |= dict(zip(names, means.T, strict=True))
        self._check(metrics)
        if progress:
            progress(self.round, self.config.ppo.epochs, metrics)
        self.round += 1
        return metrics

    def _collect(self) -> None:
        seats, steps = self._seats, self.config.budget.steps
        for seat in seats:
            seat.begin(self.round)
        for step in range(steps + 1):
            for seat in seats:
                if step > 0:
                    seat.receive(step - 1)
                seat.look()
            if step < steps:  # the last look is for the value of where the round ends
                for seat in seats:
                    seat.act()

    def _collected(self) -> Metrics:
        """Scores of the games that ended: the game's own, and with clipped rewards; what a step paid."""
        games = [seat.finished for seat in self._seats]
        means = np.array([np.mean(each, 0) if each else np.full(3, np.nan) for each in games])
        return {
            "return": means[:, 1],
            "clipped": means[:, 2],
            "step_reward": np.array([seat.reward.mean() for seat in self._seats]),
            "games": np.array([len(each) for each in games]),
            "steps": self.steps.copy(),
        }

    def _check(self, metrics: Metrics) -> None:
        for index, seed in enumerate(self.config.seed_list):
            if not np.isfinite(metrics["total"][index]):
                raise RunFailedError(
                    f"The loss of seed {seed} became {metrics['total'][index]} in round {self.round + 1}; "
                    "lower the learning rate."
                )

    def state(self) -> dict[str, Tensor]:
        """Weights, optimiser and progress, as copies on the CPU; games are not kept."""
        stacks = [each.learner.stack.weights for each in self.learners]
        optimisers = [each.learner.optimiser for each in self.learners]
        tensors = {f"weights.{name}": torch.cat([each[name] for each in stacks]) for name in stacks[0]}
        tensors["optimiser.steps"] = torch.tensor(optimisers[0].steps)
        tensors["optimiser.first"] = torch.cat([each.first for each in optimisers])
        tensors["optimiser.second"] = torch.cat([each.second for each in optimisers])
        tensors |= {"round": torch.tensor(self.round), "steps": torch.from_numpy(self.steps)}
        return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}

    def restore(self, tensors: dict[str, Tensor], source: str = "The checkpoint") -> None:
        """Continue from a stored state, with new games."""
        check_tensors(source, tensors, self.state())
        for index, each in enumerate(self.learners):
            here = {name: tensor[index : index + 1] for name, tensor in tensors.items() if tensor.dim() > 0}
            stack, optimiser = each.learner.stack, each.learner.optimiser
            stack.load({name: here[f"weights.{name}"] for name in stack.weights})
            first, second = here["optimiser.first"], here["optimiser.second"]
            optimiser.restore({"steps": tensors["optimiser.steps"], "first": first, "second": second})
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # before a seed's own stream goes on
        self.round = int(tensors["round"])
        self.steps = tensors["steps"].numpy().copy()
        self._seats = []

    def members(self) -> list[Agent]:
        """The agents as they are now, one per seed, on the CPU."""
        agents = []
        for each in self.learners:
            agent = copy.deepcopy(each.agent).cpu()
            agent.load_state_dict(each.learner.stack.member(0))
            if isinstance(agent.encoder, ImageEncoder):
                agent.encoder.mixed = False
            agents.append(agent.eval())
        return agents

    def close(self) -> None:
        """Stop all games."""
        for games in self._games:
            games.close()


def check(config: TrainConfig) -> None:
    """Refuse what the path for frames does not do."""
    if config.network.tail == "values":
        raise XLVINError("On Atari agents learn a policy; choose one of those, such as xlvin-r.")
    if config.budget.unit != "transitions":
        raise XLVINError(
            "Atari is trained on a number of steps; give --transitions instead of --trajectories."
        )
    if config.imagination.iterations or config.imagination.last_iterations:
        raise XLVINError("Imagination is not available for Atari; leave its iterations at 0.")
    config.ppo.refuse(("first_discount", "recompute", "vtrace", "novelty_coef"), "Atari")
