"""Double Q-learning with a target network (Mnih et al. 2015, van Hasselt et al. 2016), all seeds at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from xlvin.agents.base import Agent, Trail
from xlvin.training.config import TrainConfig
from xlvin.training.learner import Learner
from xlvin.training.objective import WeightedTerms
from xlvin.training.recording import Recorder
from xlvin.training.stack import Stack, clipped
from xlvin.training.values.windows import Window


class ValueObjective(WeightedTerms):
    """`forward(trail)` gives the loss and its terms, averaged over the sample.

    Huber's loss on Q(s, a) - R, where R is the return of the trail, bootstrapped at its end; beside it the
    losses that train the agent's model.
    """

    def __init__(self, agent: Agent, config: TrainConfig) -> None:
        ppo = config.ppo
        weights = {
            "q": config.values.q_coef,
            "transe": ppo.transe_coef,
            "reward": ppo.reward_coef,
            "lasting": ppo.reward_coef,  # an outcome of an action as the reward is
            "value": ppo.value_coef,
        }
        super().__init__(agent, weights)

    def forward(self, trail: Trail) -> tuple[Tensor, Tensor]:
        """What to descend [], and its terms without their weights [terms]."""
        output = self.agent(trail.first.observation)
        q = output.logits.gather(-1, trail.first.action.unsqueeze(-1)).squeeze(-1)
        terms = {
            "q": huber_loss(q, trail.target[:, 0], reduction="none"),
            **self.agent.trail_losses(output, trail),
        }
        return self.combined(terms, torch.stack(list(terms.values())).mean(-1))


class ValueLearner:
    """How sampled windows change the agents of a learner; `members` are copies that become the target."""

    def __init__(self, learner: Learner, members: list[Agent], config: TrainConfig) -> None:
        self.config, self.learner = config, learner
        self.objective = ValueObjective(learner.agent, config)
        self.target, self._target_agent = Stack(members, learner.stack.flat.device), members[0]
        self._recorded_gradient = Recorder(self.gradient)

    def learn(self, window: Window, learning_rate: float) -> Tensor:
        """One step down the objective; returns the loss and its terms, [S, 1 + terms]."""
        values, optimiser = self.config.values, self.learner.optimiser
        terms: Tensor
        gradient, terms = self._recorded_gradient(window)
        optimiser.step(gradient, learning_rate)
        if optimiser.steps % values.target_every == 0:
            self.target.flat.lerp_(self.learner.stack.flat, values.target_mix)
        return terms

    def share_statistics(self) -> None:
        """Let the target network see observations as the learning one does."""
        for name, frozen in self.learner.stack.frozen.items():
            self.target.frozen[name].copy_(frozen)

    def gradient(self, window: Window) -> tuple[Tensor, Tensor]:
        """The gradient [S, P], clipped for each seed, and the loss with its terms [S, 1 + terms]."""
        stack = self.learner.stack
        trail = window.trail(self.bootstrap(window.end))
        loss, terms = stack.apply(self.objective, trail, prefix="agent.")
        gradient = clipped(stack.gradient(loss.sum()), self.config.ppo.max_grad_norm)
        return gradient, torch.cat((loss.detach().unsqueeze(1), terms), 1)

    @torch.no_grad()
    def bootstrap(self, observation: Tensor) -> Tensor:
        """What observations [S, B, ...] are worth: the target network's Q of the best action, [S, B]."""
        values: Tensor = self.target.apply(self._target_agent, observation).logits
        judged = values
        if self.config.values.double:
            judged = self.learner.stack.apply(self.learner.agent, observation).logits
        return values.gather(-1, judged.argmax(-1, keepdim=True)).squeeze(-1)
