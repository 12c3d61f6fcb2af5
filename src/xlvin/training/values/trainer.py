"""The training loop for action values: explore with some random actions, keep all data, learn from replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from xlvin.errors import XLVINError
from xlvin.storage import grouped
from xlvin.training.config import PASS, TrainConfig
from xlvin.training.experience import Experience
from xlvin.training.policies import exploring_policy
from xlvin.training.replay import Replay
from xlvin.training.trainer import Metrics, Trainer
from xlvin.training.values.learner import ValueLearner
from xlvin.training.values.windows import Windows


class ValueTrainer(Trainer):
    """Trains `config.seeds` agents with a value tail side by side, one round at a time.

    Rounds, budgets and checkpoints are those of `Trainer`; what a round's data is used for is not.
    """

    tail = "values"

    def __init__(self, config: TrainConfig, device: torch.device | str = "cpu") -> None:
        if config.imagination.last_iterations > 0:
            raise XLVINError("Action values are learned from real data only; leave imagination out.")
        if config.network.kind == "gaussian":
            raise XLVINError("Action values belong to actions that can be counted; choose agent dqn.")
        if config.ppo.vtrace:
            raise XLVINError("Q-learning needs no correction for old data; leave vtrace off.")
        super().__init__(config, device)
        shapes = self.actors.shapes
        dtype = torch.uint8 if shapes.dtype == "uint8" else torch.float32
        self.replay = Replay(config.seeds, shapes.observation, self.device, dtype)
        self.light = len(shapes.observation) == 1  # images of a whole run are not copied after every round
        self.values = ValueLearner(self.learner, self.members(), self.config)
        self._policy = exploring_policy(self.stack, self.agent, lambda: self.epsilon)

    @property
    def epsilon(self) -> float:
        """The share of random actions in this round."""
        values = self.config.values
        done = min(1.0, self.round / (values.epsilon_share * self.config.budget.rounds))
        return values.epsilon_start + done * (values.epsilon_end - values.epsilon_start)

    def _improve(self, experience: Experience, report: Callable[[int], None] | None) -> Metrics:
        """Learn from all data so far."""
        values = self.config.values
        if self.config.network.standardises:
            self._normalise(experience)
        self.values.share_statistics()
        self.replay.add(replace(experience, reward=self._reward(experience)))
        windows, totals = Windows(self.replay, values.n_step, self.discount), torch.zeros(())
        for part in range(values.passes):
            updates = min(PASS, values.updates - part * PASS)
            rate = self._learning_rate(part / values.passes)
            for window in windows.drawn(self.config.seed_list, updates, values.batch, self.round, part):
                totals = totals + self.values.learn(window, rate)
            if report:
                report(part + 1)
        means = (totals / values.updates).cpu().numpy()
        return dict(zip(("total", *self.values.objective.names), means.T, strict=True))

    def state(self) -> dict[str, Tensor]:
        """Everything a resumed run needs, as copies on the CPU."""
        own = {"target.flat": self.values.target.flat}
        own |= {f"replay.{name}": tensor for name, tensor in self.replay.state().items()}
        return super().state() | {n: t.to("cpu", copy=True).contiguous() for n, t in own.items()}

    def restore(self, tensors: dict[str, Tensor], source: str = "The checkpoint") -> None:
        """Continue from a stored state, after checking that it is one of this run's."""
        super().restore(tensors, source)
        self.replay.restore(grouped(tensors)["replay"], self.actors.shapes.actions)
        self.values.target.flat.copy_(tensors["target.flat"])
        self.values.share_statistics()
