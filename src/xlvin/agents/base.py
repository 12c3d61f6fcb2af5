"""What every agent is: a normaliser, an encoder, a way from embeddings to logits and value, and heads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from xlvin.errors import XLVINError
from xlvin.latent.encoders import ImageEncoder, MLPEncoder
from xlvin.planner.planner import Wiring
from xlvin.storage import save_tensors

FORMAT = "xlvin-agent-1"


@dataclass(frozen=True)
class AgentConfig:
    """The shape of an agent's network; together with its weights it is the agent."""

    kind: Literal["xlvin", "ppo", "atreec"] = "xlvin"
    """Which policy network."""
    observation: tuple[int, ...] = ()
    """Shape of an observation, (features,) or (channels, height, width); the environment's."""
    actions: int = 0
    """Number of actions; the environment's."""
    discount: float = 0.99
    """gamma on the edges of the tree; training sets it to its own."""
    latent: int = 50
    """k, the width of the state embedding (section 4.1)."""
    hidden: int = 64
    """F, hidden features of the encoder and of the transition model (section 4.1)."""
    depth: int = 2
    """K, the planner's thinking time; 0 plans nothing."""
    executor: str = "random-deterministic"
    """A shipped executor's name, a weight file, or "untrained" for random frozen weights."""
    wiring: Wiring = "executor"
    """How messages meet: as in the executor's pretraining, or summed as in the authors' "skeleton"."""
    beam: int | None = None
    """Keep only this many nodes per level of the tree, by the actor's prior; None keeps all."""
    initialisation: Literal["orthogonal", "torch"] = "orthogonal"
    """Orthogonal with a small actor (Kostrikov), or PyTorch's default."""
    inputs: Literal["raw", "bounds", "standard", "symlog"] = "standard"
    """Vector observations as they are; with bounded features scaled to [-1, 1]; standardised by the training data;
    or standardised and then compressed by sign(x) log(1 + |x|), which tames what lies outside the data."""


class Output(NamedTuple):
    """What an agent says about a batch of observations."""

    logits: Tensor  # [..., A]
    value: Tensor  # [...]
    embedding: Tensor  # [..., k]


class Batch(NamedTuple):
    """Transitions that an agent learns from, beside what PPO needs."""

    observation: Tensor  # [N, ...]
    action: Tensor  # [N] int64
    reward: Tensor  # [N], as scaled for learning
    next_observation: Tensor  # [N, ...], the true successor
    negative: Tensor  # [N] int64: row of another state s~ of this batch


class Normaliser(nn.Module):
    """Subtract a mean, divide by a scale, perhaps compress; identity until statistics are set."""

    mean: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, ...], symlog: bool) -> None:
        super().__init__()
        self.symlog = symlog
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("scale", torch.ones(shape))

    def forward(self, observation: Tensor) -> Tensor:
        """Standardised observations."""
        standard = (observation - self.mean) * self.scale
        return standard.sign() * standard.abs().log1p() if self.symlog else standard


class Agent(nn.Module, ABC):
    """A policy network. Subclasses say how an embedding becomes a policy, a value and auxiliary losses."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__()
        self.config = config
        if config.actions < 1 or not config.observation:
            raise XLVINError("An agent needs the shape of its observations and at least one action.")
        self.encoder: nn.Module
        if len(config.observation) == 1:
            self.encoder = MLPEncoder(config.observation[0], config.hidden, config.latent)
        else:
            self.encoder = ImageEncoder(config.observation, config.latent)
        self.normaliser: nn.Module = nn.Identity()
        if len(config.observation) == 1 and config.inputs != "raw":
            self.normaliser = Normaliser(config.observation, config.inputs == "symlog")

    def embed(self, observation: Tensor) -> Tensor:
        """h = z(s), [..., k]."""
        return cast(Tensor, self.encoder(self.normaliser(observation)))

    @abstractmethod
    def decide(self, embedding: Tensor) -> Output:
        """Policy and value of embedded states [B, k]."""

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """Named losses per sample that train the agent's model beside PPO; none for a model-free agent."""
        return {}

    def forward(self, observation: Tensor) -> Output:
        """Policy and value of observations [B, ...]."""
        return self.decide(self.embed(observation))

    @torch.inference_mode()
    def predict(
        self, observation: NDArray[Any], deterministic: bool = True
    ) -> tuple[NDArray[np.int64] | np.int64, None]:
        """Choose actions for one observation or a batch, as in Stable-Baselines3; the second item is unused."""
        array = np.asarray(observation)
        single = array.shape == self.config.observation
        if not single and array.shape[1:] != self.config.observation:
            raise XLVINError(
                f"The observation has shape {array.shape}; this agent reads {self.config.observation}, or a batch of them."
            )
        if not np.isfinite(array).all():
            raise XLVINError("The observation holds a NaN or an infinity; an agent needs finite numbers.")
        device = next(self.parameters()).device
        dtype = torch.uint8 if array.dtype == np.uint8 else torch.float32
        tensor = torch.as_tensor(array, dtype=dtype, device=device)
        logits = self(tensor.unsqueeze(0) if single else tensor).logits
        actions = logits.argmax(-1) if deterministic else torch.distributions.Categorical(logits=logits).sample()
        chosen = actions.cpu().numpy()
        return (chosen[0] if single else chosen), None

    def save(self, path: str | Path) -> None:
        """Write configuration and weights into one safetensors file; `xlvin.load` reads it."""
        weights = {name: weight.detach().cpu().contiguous() for name, weight in self.state_dict().items()}
        save_tensors(Path(path), weights, {"format": FORMAT, "config": asdict(self.config)})


def initialise(agent: Agent, actor: nn.Linear | None, critic: nn.Linear | None) -> None:
    """Kostrikov's initialisation: orthogonal with gain sqrt(2), critic 1, actor 0.01, biases zero.

    Frozen modules keep their weights.
    """
    if agent.config.initialisation == "torch":
        return
    for module in agent.modules():
        if isinstance(module, nn.Linear | nn.Conv2d) and module.weight.requires_grad:
            gain = 0.01 if module is actor else 1.0 if module is critic else 2**0.5
            nn.init.orthogonal_(module.weight, gain)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):  # the rows of a linear layer that one-hot actions select
            nn.init.orthogonal_(module.weight, 2**0.5)
