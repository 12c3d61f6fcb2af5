"""What every agent is: a normaliser, an encoder, a way from embeddings to logits and value, and heads."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from xlvin.acting.recorded import RecordedNetwork
from xlvin.agents.distributions import Categorical, Distribution
from xlvin.agents.tree import ImaginedTree
from xlvin.binning import centres, possible
from xlvin.errors import XLVINError
from xlvin.executor.network import ExecutorConfig
from xlvin.fields import check_fields
from xlvin.latent.encoders import ImageEncoder, MLPEncoder
from xlvin.latent.maze import MazeEncoder, RecurrentMazeEncoder
from xlvin.observations import converter
from xlvin.storage import save_tensors

FORMAT = "xlvin-agent-1"
# With more binned actions than this, as many of the most probable paths are followed to every level; and so
# they are where the full tree would have more leaves than that.
BEAM, LEAVES = 8, 10_000


@dataclass(frozen=True)
class AgentConfig:
    """The shape of an agent's network; together with its weights it is the agent."""

    kind: Literal["xlvin", "ppo", "atreec", "pixels", "vpn", "gaussian"] = "xlvin"
    """Which policy network."""
    observation: tuple[int, ...] = ()
    """Shape of an observation, (features,) or (channels, height, width); the environment's."""
    given: tuple[int, ...] | None = None
    """Shape of an observation as the environment gives it, () for a discrete state; None: as above."""
    actions: int = 0
    """Number of actions; the environment's. Of a Gaussian policy, the numbers in an action."""
    discount: float = 0.99
    """gamma on the edges of the tree; training sets it to its own."""
    encoder: Literal["standard", "maze", "maze-recurrent"] = "standard"
    """An MLP for vectors, the Atari network for images; or a network for mazes, see `xlvin.latent.maze`."""
    latent: int = 50
    """k, the width of the state embedding (section 4.1)."""
    hidden: int = 64
    """F, hidden features of the encoder and of the transition model (section 4.1)."""
    depth: int = 2
    """K, the planner's thinking time; 0 plans nothing."""
    executor: str = "random-deterministic"
    """A shipped executor's name, a weight file, or "untrained" for random frozen weights."""
    wiring: Literal["executor", "skeleton", "aligned"] = "executor"
    """How the tree meets the executor: messages as in its pretraining; summed as in the authors' "skeleton";
    or "aligned", where nodes carry grounded values and rewards and the executor's own decoder reads Q."""
    sharpness: float = 1.0
    """beta, how much a planned action value adds to its action's logit; in the aligned wiring only."""
    normalise: bool = False
    """Layer normalisation after every step of the executor (appendix F, mazes)."""
    beam: int | None = None
    """Expand only this many nodes per level of the tree: the most probable by the actor's prior, or, in the
    aligned wiring, those that promise most. None: all, or 8 where binned actions are more than that or the
    tree would have more than 10,000 leaves."""
    initialisation: Literal["orthogonal", "torch"] = "orthogonal"
    """Orthogonal with a small actor (Kostrikov), or PyTorch's default."""
    inputs: Literal["raw", "bounds", "standard", "symlog"] = "standard"
    """Vector observations as they are; with bounded features scaled to [-1, 1]; standardised by the training
    data; or standardised and compressed by sign(x) log(1 + |x|), which tames what lies outside the data.
    Bounds are read from boxes of one dimension: what was flattened from two or three stays as it is."""
    samples: int = 1
    """M, outcomes of an action in the tree, each with its chance (section 3.1); 1: T is deterministic."""
    tail: Literal["policy", "values"] = "policy"
    """What the heads say: a policy and a value, learned by PPO; or action values, by Q-learning."""
    bins: tuple[int, ...] = ()
    """Into how many parts each dimension of a continuous action is cut, or one number for all; () chooses by
    the number of dimensions, and stands for discrete actions in an agent. Logits are factored: one row of
    them per dimension, added up."""
    low: tuple[float, ...] = ()
    """The lowest value of each dimension of a continuous action; the environment's."""
    high: tuple[float, ...] = ()
    """The highest."""
    image: Literal["uint8", "float32"] = "uint8"
    """The type of the numbers in images: bytes, read as shares of 255, or numbers as they are; the
    environment's."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.samples < 1:
            raise XLVINError(f"samples is {self.samples}; give at least 1.")
        if self.samples > 1 and self.kind != "xlvin":
            raise XLVINError(f"A {self.kind} network draws no samples; leave them at 1, or choose xlvin.")
        lacking = {
            "beam": self.beam is not None and not self.executes,
            "normalise": self.normalise and not self.executes,
            "aligned wiring": self.wiring == "aligned" and self.kind != "xlvin",
            "tail of values": self.tail == "values" and self.kind == "pixels",
        }
        for name, is_set in lacking.items():
            if is_set:
                raise XLVINError(f'Kind "{self.kind}" has no {name}; leave that out, or choose xlvin.')
        if min(self.bins, default=2) < 2:
            raise XLVINError(f"bins are {self.bins}; give every dimension at least 2.")

    @property
    def native_shape(self) -> tuple[int, ...]:
        """Of an observation as the environment gives it."""
        return self.observation if self.given is None else self.given

    @property
    def standardises(self) -> bool:
        """Whether the training data's mean and variance scale the observations."""
        return len(self.observation) == 1 and self.inputs in ("standard", "symlog")

    @property
    def executes(self) -> bool:
        """Whether an executor is inside."""
        return self.kind in ("xlvin", "pixels")

    @property
    def kept(self) -> int | None:
        """Nodes kept per level of the tree: the beam; by default all, unless actions or leaves are many."""
        large = self.depth * math.log(max(self.actions * self.samples, 1)) > math.log(LEAVES)
        many = large or (bool(self.bins) and self.actions > BEAM)
        return BEAM if self.beam is None and self.executes and many else self.beam

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> AgentConfig:
        """The configuration that `dataclasses.asdict` and JSON have stored."""
        fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in stored.items()}
        return cls(**fields)


class Output(NamedTuple):
    """What an agent says about a batch of observations."""

    logits: Tensor  # [..., A]; what makes up the policy, if that is no choice among actions
    value: Tensor  # [...]
    embedding: Tensor  # [..., k]


class Batch(NamedTuple):
    """Transitions that an agent learns from, beside what PPO needs."""

    observation: Tensor  # [N, ...]
    action: Tensor  # [N] int64; of a Gaussian policy [N, d]
    reward: Tensor  # [N], as scaled for learning
    next_observation: Tensor  # [N, ...], the true successor
    negative: Tensor  # [N] int64: row of another state s~ of this batch


class Trail(NamedTuple):
    """The n steps that really followed on each state of a batch, or fewer where the episode ended."""

    first: Batch  # the first of them
    action: Tensor  # [N, n] int64
    reward: Tensor  # [N, n], as scaled for learning
    taken: Tensor  # [N, n] one, or zero after the end
    terminated: Tensor  # [N, n] one where the step ended the episode for good
    target: Tensor  # [N, n + 1], the return from every state on the way; meaningless after the end


class Normaliser(nn.Module):
    """Subtract a mean, multiply by a scale, perhaps compress; identity until statistics are set."""

    mean: Tensor
    scale: Tensor  # one over the deviation

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
        self._recorded = RecordedNetwork(self)
        if config.actions < 1 or not config.observation:
            raise XLVINError("An agent needs the shape of its observations and at least one action.")
        self.encoder: nn.Module
        if config.encoder != "standard":
            encoder = MazeEncoder if config.encoder == "maze" else RecurrentMazeEncoder
            self.encoder = encoder(config.observation, config.hidden, config.latent)
        elif len(config.observation) == 1:
            self.encoder = MLPEncoder(config.observation[0], config.hidden, config.latent)
        else:
            self.encoder = ImageEncoder(config.observation, config.latent)
        self._vectors = _vectors(config)
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

    def trail_losses(self, output: Output, trail: Trail) -> dict[str, Tensor]:
        """The same beside Q-learning; of the first step only, unless an agent predicts more of them."""
        return self.auxiliary_losses(output, trail.first)

    def forward(self, observation: Tensor) -> Output:
        """Policy and value of observations [B, ...]."""
        return self.decide(self.embed(observation))

    def predict(
        self,
        observation: Any,
        state: None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[Any] | np.int64, None]:
        """Choose actions for one observation or a batch of them, as the environment gives them.

        Actions are what the environment takes, vectors [d] or [B, d] where it wants those. Called as in
        Stable-Baselines3, except that the most probable action is the default. Agents here keep
        nothing between steps: `state` and `episode_start` are not read, and the second result is None.

        A CPU acts from a recording of the network, made anew when modules, weights or `training` flags have
        changed. Hooks, plain attributes of modules and what is done in place to `parameter.data` go
        unnoticed: call `record_anew` after a change of those.
        """
        batch, single = self._read(observation)
        some = batch if len(batch) else np.zeros_like(batch, shape=(1, *batch.shape[1:]))
        logits = self._recorded(some)[0][: len(batch)]
        chosen = self.native(self._choose(logits, deterministic))
        return (chosen[0] if single else chosen), None

    def record_anew(self) -> None:
        """Let `predict` look at the weights again, after a change that it cannot notice."""
        self._recorded.record_anew()

    def distribution(self, logits: Tensor) -> Distribution:
        """The policy that logits [..., A] speak of."""
        return Categorical(logits)

    def native(self, chosen: NDArray[Any]) -> NDArray[Any]:
        """What the environment takes for choices [...]: the same, or vectors [..., d] if it wants those."""
        return chosen if self._vectors is None else self._vectors[chosen]

    def _choose(self, logits: NDArray[np.float32], deterministic: bool) -> NDArray[Any]:
        if deterministic:
            return np.asarray(logits.argmax(-1))
        return torch.from_numpy(logits).softmax(-1).multinomial(1).squeeze(-1).numpy()

    def plan(self, observation: Any) -> ImaginedTree:
        """The tree that the agent imagines around one observation, with what it thinks of every node."""
        raise XLVINError(
            f'A "{self.config.kind}" agent does not plan; train one that has a tree, as xlvin-r.'
        )

    @property
    def executor(self) -> ExecutorConfig | None:
        """The shape of the executor inside, if there is one."""
        return None

    def save(self, path: str | Path) -> None:
        """Write configuration and weights into one safetensors file; `xlvin.load` reads it.

        The executor's weights are in it: the file that they came from is not needed any more.
        """
        weights = {name: weight.detach().cpu().contiguous() for name, weight in self.state_dict().items()}
        save_tensors(Path(path), weights, self.description())

    def description(self) -> dict[str, Any]:
        """What has to be known beside the weights."""
        executor = None if self.executor is None else asdict(self.executor)
        return {"format": FORMAT, "config": asdict(self.config), "executor": executor}

    def _read(self, observation: Any) -> tuple[NDArray[Any], bool]:
        """One observation or a batch as a batch for the network, and whether it was one."""
        config, given = self.config, self.config.native_shape
        try:
            array = np.asarray(observation)
        except ValueError as error:
            raise XLVINError(
                f"The observation is no array of shape {given}; give the first of what `env.reset` "
                "and `env.step` return."
            ) from error
        single = array.shape == given
        if not single and (array.ndim == 0 or array.shape[1:] != given):
            raise XLVINError(f"The observation has shape {array.shape}; this agent reads {given} or a batch.")
        if array.dtype.kind not in "biuf":
            raise XLVINError("The observation holds something other than numbers.")
        dtype = config.image if len(config.observation) == 3 else "float32"
        if dtype == "uint8" and not _holds_bytes(array):
            raise XLVINError(
                "The observation holds something other than bytes, which this agent's images are made of; "
                'give whole numbers from 0 to 255, or make an agent with image="float32".'
            )
        with np.errstate(over="ignore"):  # told below
            batch = converter(given, config.observation, dtype)(array[None] if single else array)
        if not np.isfinite(batch).all():
            raise XLVINError("The observation holds something other than finite numbers, such as NaN.")
        return batch, single


def _holds_bytes(array: NDArray[Any]) -> bool:
    """Whether all numbers are whole and from 0 to 255, whatever their type: what is a byte stays the same."""
    with np.errstate(invalid="ignore"):  # NaN is none
        return array.dtype == np.uint8 or np.array_equal(array.astype(np.uint8), array)


def _vectors(config: AgentConfig) -> NDArray[np.float32] | None:
    """The continuous actions that the numbers of binned ones stand for, [A, d]; None for others."""
    if not config.bins:
        return None
    if not len(config.bins) == len(config.low) == len(config.high) or not possible(config.bins):
        raise XLVINError("An agent with bins needs low and high for each, and not too many of them.")
    if len(vectors := centres(config.bins, config.low, config.high)) != config.actions:
        raise XLVINError(f"Bins {config.bins} make {len(vectors)} actions, not {config.actions}.")
    return vectors


def make_critic(config: AgentConfig, width: int) -> nn.Linear | None:
    """A linear head for the value; none where the tail speaks of values alone."""
    return nn.Linear(width, 1) if config.tail == "policy" else None


def conclude(logits: Tensor, critic: nn.Linear | None, features: Tensor, embedding: Tensor) -> Output:
    """What the heads say of features [B, w]; without a critic logits are Q, the value their largest."""
    value = logits.amax(-1) if critic is None else critic(features).squeeze(-1)
    return Output(logits, value, embedding)


def initialise(agent: Agent, actor: Sequence[nn.Module], critic: nn.Linear | None) -> None:
    """Kostrikov's initialisation: orthogonal with gain sqrt(2), critic 1, actor 0.01, biases zero.

    `actor` names the last layers before the logits: small ones make the first policy uniform. `critic` is a
    head that no logit depends on, if there is one. Frozen modules keep their weights.
    """
    if agent.config.initialisation == "torch":
        return
    for module in agent.modules():
        if isinstance(module, nn.Linear | nn.Conv2d) and module.weight.requires_grad:
            gain = 0.01 if module in actor else 1.0 if module is critic else 2**0.5
            nn.init.orthogonal_(module.weight, gain)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):  # the rows of a linear layer that one-hot actions select
            nn.init.orthogonal_(module.weight, 2**0.5)
