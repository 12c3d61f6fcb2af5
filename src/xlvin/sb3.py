"""Agents in Stable-Baselines3: `PPO(XLVINPolicy, env)` trains one with SB3's own code, saves and loads it.

    model = PPO(XLVINPolicy, "CartPole-v1", policy_kwargs={"network": {"depth": 2}})
    model.learn(100_000, callback=TransE())

The policy is an agent of this library behind SB3's interface; it works with PPO and A2C as they are. TransE
trains the agent's transition model beside them: a callback, since only callbacks see an episode's true last
observation, which SB3's rollout buffer does not keep.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from xlvin.agents.base import AgentConfig, Batch, Normaliser, Output
from xlvin.agents.networks import ModelBasedAgent
from xlvin.agents.registry import build, named
from xlvin.errors import XLVINError
from xlvin.observations import SMALLEST_IMAGE

try:
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.distributions import Distribution
    from stable_baselines3.common.policies import ActorCriticPolicy
    from stable_baselines3.common.preprocessing import get_flattened_obs_dim, is_image_space, preprocess_obs
    from stable_baselines3.common.torch_layers import FlattenExtractor
except ImportError as error:
    raise XLVINError("xlvin.sb3 needs Stable-Baselines3; `pip install 'xlvin[sb3]'`.") from error


class XLVINPolicy(ActorCriticPolicy):
    """An actor-critic policy whose network is an agent: encoder, planner with frozen executor, heads.

    agent: a name as in `xlvin train`, "xlvin-r", "ppo", "atreec", ...
    network: fields of AgentConfig, such as {"depth": 3, "discount": 0.98}. Observations are read as SB3 gives
        them; VecNormalize standardises.
    features_extractor_class: an encoder of your own, as in every SB3 policy, also where the agent acts alone.

    The network itself is `model.policy.agent`: it plans, predicts and saves without SB3.
    """

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        lr_schedule: Any,
        *arguments: Any,
        agent: str = "xlvin-r",
        network: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if type(action_space).__name__ != "Discrete" or action_space.start != 0:
            raise XLVINError(f"The policy chooses among discrete actions from 0 on, not {action_space}.")
        if type(observation_space).__name__ in ("Dict", "MultiDiscrete"):
            raise XLVINError(
                "The policy reads one array or one state; wrap the environment with FlattenObservation."
            )
        self._name, self._network, self._actions = agent, network or {}, int(action_space.n)
        self.experience: Batch | None = None  # the latest rollout, if TransE collects it
        self.coefficients: dict[str, float] = {}
        self.auxiliary: dict[str, Tensor] = {}  # the latest auxiliary losses
        super().__init__(observation_space, action_space, lr_schedule, *arguments, **options)

    def _build(self, lr_schedule: Any) -> None:
        """Make the agent and its optimiser."""
        space, own_encoder = self.observation_space, type(self.features_extractor) is not FlattenExtractor
        given = space.shape or ()
        image = is_image_space(space, check_channels=True) and min(given[1:]) >= SMALLEST_IMAGE
        if image and not own_encoder and not self.normalize_images:
            raise XLVINError(
                "The agent's encoder scales images; leave normalize_images on, or bring a features extractor."
            )
        self._flat = own_encoder or not image
        # SB3 would scale the bytes of a flattened image; the agent does it, so that it also acts without SB3.
        scaled = self._flat and self.normalize_images and is_image_space(space)
        shapes: dict[str, Any] = {
            "observation": (get_flattened_obs_dim(space),) if self._flat else given,
            "given": given,
            "actions": self._actions,
            "inputs": "bounds" if scaled else "raw",
        }
        if own_encoder:
            shapes["latent"] = self.features_dim
        try:
            config = AgentConfig(**{**named(self._name), **shapes, **self._network})
        except TypeError as error:
            raise XLVINError(
                f"The network is not configured like this ({error}); see xlvin.AgentConfig."
            ) from error
        if config.kind == "gaussian" or config.tail == "values":
            raise XLVINError(
                f"{self._name} has no policy over discrete actions; choose one that has, as xlvin-r."
            )
        self.agent = build(config, int(torch.randint(2**31, ())))  # SB3's seed decides
        if scaled and isinstance(self.agent.normaliser, Normaliser):
            self.agent.normaliser.scale.fill_(1.0 / 255.0)
        if own_encoder:
            self.agent.encoder = self.features_extractor
            if len(given) > 1:  # the agent flattens what it reads, also without SB3
                self.agent.encoder = nn.Sequential(nn.Unflatten(1, given), self.features_extractor)
        trainable = [weight for weight in self.parameters() if weight.requires_grad]
        options = {"lr": lr_schedule(1), **self.optimizer_kwargs}
        self.optimizer = self.optimizer_class(trainable, **options)

    def forward(self, obs: Any, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Actions [B], values [B, 1] and the actions' log-probabilities [B]."""
        output = self._outputs(obs)
        distribution = self._distribution(output)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, output.value.unsqueeze(-1), distribution.log_prob(actions)

    def evaluate_actions(self, obs: Any, actions: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values [B, 1], log-probabilities [B], entropies [B]; in training, TransE's gradient rides along."""
        output = self._outputs(obs)
        distribution = self._distribution(output)
        value = output.value.unsqueeze(-1)
        if self.experience is not None and torch.is_grad_enabled():
            loss = self._auxiliary_loss(self.experience, len(value))
            value = _Alongside.apply(value, loss)  # type: ignore[no-untyped-call]
        return value, distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: Any) -> Distribution:
        """The policy at observations."""
        return self._distribution(self._outputs(obs))

    def predict_values(self, obs: Any) -> Tensor:
        """Values [B, 1]."""
        return self._outputs(obs).value.unsqueeze(-1)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {"agent": self._name, "network": self._network}

    def _read(self, obs: Any) -> Tensor:
        """Observations as the agent's network takes them."""
        normalize = self.normalize_images and not self._flat
        read = preprocess_obs(obs, self.observation_space, normalize_images=normalize)
        assert isinstance(read, Tensor)
        return read.flatten(1) if self._flat else read

    def _outputs(self, obs: Any) -> Output:
        output: Output = self.agent(self._read(obs))
        return output

    def _distribution(self, output: Output) -> Distribution:
        return self.action_dist.proba_distribution(action_logits=output.logits)

    def _auxiliary_loss(self, experience: Batch, count: int) -> Tensor:
        """The weighted auxiliary losses of `count` random transitions of the latest rollout."""
        rows = torch.randint(len(experience.action), (count,), device=experience.action.device)
        state, action, reward, successor = (column[rows] for column in experience[:4])
        batch = Batch(
            self._read(state), action, reward, self._read(successor), torch.randint_like(rows, count)
        )
        embedding = self.agent.embed(batch.observation)
        nothing = embedding.new_empty(0)  # neither policy nor value is asked for
        losses = self.agent.auxiliary_losses(Output(nothing, nothing, embedding), batch)
        self.auxiliary = {name: loss.mean() for name, loss in losses.items()}
        return torch.stack([self.coefficients[name] * loss for name, loss in self.auxiliary.items()]).sum()


class TransE(BaseCallback):
    """Trains the policy's transition model by TransE (equation 4) in the same steps as PPO or A2C.

    Every minibatch of SB3's update draws as many transitions (s, a, s') of the rollout, with the true s' also
    at an episode's end, and adds `coefficient` times their mean loss to SB3's own loss (equation 7).
    """

    def __init__(self, coefficient: float = 0.001, reward_coefficient: float = 1.0) -> None:
        super().__init__()
        given = (coefficient, reward_coefficient)
        if not all(isinstance(number, int | float) and 0.0 <= number < math.inf for number in given):
            raise XLVINError(f"TransE's coefficients are {given}; give numbers that are not negative.")
        self.coefficients = {"transe": coefficient, "pixels": coefficient, "reward": reward_coefficient}
        self._columns: list[tuple[NDArray[Any], ...]] = []

    @property
    def policy(self) -> XLVINPolicy:
        """The policy that is trained."""
        policy = self.model.policy
        if not isinstance(policy, XLVINPolicy) or not isinstance(policy.agent, ModelBasedAgent):
            raise XLVINError(
                "TransE trains a transition model; use it with XLVINPolicy and an agent that plans."
            )
        return policy

    def _on_training_start(self) -> None:
        self.policy.coefficients = self.coefficients

    def _on_rollout_start(self) -> None:
        self._columns = []

    def _on_step(self) -> bool:
        successor = np.array(self.locals["new_obs"])
        for index, done in enumerate(self.locals["dones"]):
            if done:  # new_obs is the next episode's first
                successor[index] = self.locals["infos"][index]["terminal_observation"]
        actions, rewards = self.locals["actions"], self.locals["rewards"]
        state = np.array(getattr(self.model, "_last_obs"))  # noqa: B009 - only on-policy algorithms have it
        self._columns.append((state, actions.reshape(-1), np.array(rewards), successor))
        return True

    def _on_rollout_end(self) -> None:
        for name, loss in self.policy.auxiliary.items():
            self.logger.record(f"train/{name}_loss", loss.item())
        state, action, reward, successor = (
            torch.as_tensor(np.concatenate(column), device=self.model.device)
            for column in zip(*self._columns, strict=True)
        )
        no_negatives = action  # they are drawn for each minibatch
        self.policy.experience = Batch(state, action.long(), reward.float(), successor, no_negatives)

    def _on_training_end(self) -> None:
        self.policy.experience = None


class _Alongside(torch.autograd.Function):
    """The first argument as it is; its backward pass also descends the second, a loss, once and in full."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, loss: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad, grad.new_ones(())
