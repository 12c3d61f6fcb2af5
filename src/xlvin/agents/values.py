"""Value prediction networks, and what agents that predict several steps are held against."""

from __future__ import annotations

from typing import cast

from torch import Tensor
from torch.nn.functional import softplus

from xlvin.agents.base import AgentConfig, Output, Trail, conclude, initialise
from xlvin.agents.networks import ModelBasedAgent, scalar_plan
from xlvin.errors import XLVINError
from xlvin.latent.transition import TransitionModel
from xlvin.planner.planner import Plan
from xlvin.planner.prediction import PredictionTree
from xlvin.planner.tree import grow


class VPNAgent(ModelBasedAgent):
    """Values of imagined states, averaged over the depths of a tree (Oh et al. 2017)."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        if config.tail != "values":
            raise XLVINError("A value prediction network has no policy; leave its tail as it is, values.")
        transition = TransitionModel(config.latent, config.actions, config.hidden)
        self.tree = PredictionTree(transition, config.depth, config.discount)
        initialise(self, [self.tree.reward[-1], self.tree.lasting[-1], self.tree.value], None)

    @property
    def transition(self) -> TransitionModel:
        """T, inside the tree."""
        return self.tree.transition

    def decide(self, embedding: Tensor) -> Output:
        """Q of depth K."""
        return conclude(self.tree(embedding).value, None, embedding, embedding)

    def imagine(self, embedding: Tensor) -> Plan:
        """The tree with Q of every node, planned from it."""
        return scalar_plan(self.tree, grow(self.transition, embedding, self.tree.depth))

    def trail_losses(self, output: Output, trail: Trail) -> dict[str, Tensor]:
        """What T foresees along the actions taken, against what came: rewards, ends, and returns.

        At the l-th of at most K steps: (r - r_l)^2 / 2, the cross-entropy of going on, and (V - R_l)^2 / 2 of
        the state that it leads to; sums over the steps. V of an observed state is not learned as such, only
        that of imagined ones.
        """
        tree, zero = self.tree, output.value.new_zeros(output.value.shape)
        state, reward, lasting, value = output.embedding, zero, zero, zero
        for step in range(min(tree.depth, trail.action.shape[1])):
            action, taken = trail.action[:, step], trail.taken[:, step]
            chosen = action.unsqueeze(-1)
            foreseen = tree.reward(state).gather(-1, chosen).squeeze(-1)
            reward = reward + 0.5 * taken * (foreseen - trail.reward[:, step]).square()
            logit = tree.lasting(state).gather(-1, chosen).squeeze(-1)
            lasting = lasting + taken * (softplus(logit) - logit * (1.0 - trail.terminated[:, step]))
            state = state + self.transition.translation(state, action)
            worth = cast(Tensor, tree.value(state)).squeeze(-1)
            value = value + 0.5 * taken * (worth - trail.target[:, step + 1]).square()
        return {"reward": reward, "lasting": lasting, "value": value}
