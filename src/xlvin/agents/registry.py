"""Agents by name, and how to build one, new or from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xlvin.agents.base import FORMAT, Agent, AgentConfig
from xlvin.agents.gaussian import GaussianAgent
from xlvin.agents.networks import UNTRAINED, AlignedXLVINAgent, ATreeCAgent, PPOAgent, XLVINAgent
from xlvin.agents.pixels import PixelXLVINAgent
from xlvin.agents.values import VPNAgent
from xlvin.errors import XLVINError, unknown
from xlvin.executor.artefact import load_provenance
from xlvin.executor.network import Executor, ExecutorConfig, Processor
from xlvin.randomness import seeded
from xlvin.storage import check_tensors, load_tensors

# What a name stands for: fields of AgentConfig.
AGENTS: dict[str, dict[str, Any]] = {
    "xlvin-r": {"kind": "xlvin", "executor": "random-deterministic"},
    "xlvin-cp": {"kind": "xlvin", "executor": "cartpole-tree"},
    "xlvin-untrained": {"kind": "xlvin", "executor": UNTRAINED},
    "xlvin-aligned": {"kind": "xlvin", "executor": "random-deterministic", "wiring": "aligned"},
    "xlvin-aligned-untrained": {"kind": "xlvin", "executor": UNTRAINED, "wiring": "aligned"},
    "ppo": {"kind": "ppo"},
    "atreec": {"kind": "atreec"},
    "xlvin-imagine": {"kind": "xlvin", "executor": "random-deterministic"},
    "xlvin-untrained-imagine": {"kind": "xlvin", "executor": UNTRAINED},
    "ppo-imagine": {"kind": "ppo"},
    "xlvin-latent-imagine": {"kind": "xlvin", "executor": "random-deterministic"},
    "xlvin-aligned-imagine": {"kind": "xlvin", "executor": "random-deterministic", "wiring": "aligned"},
    "xlvin-aligned-untrained-imagine": {"kind": "xlvin", "executor": UNTRAINED, "wiring": "aligned"},
    "xlvin-stochastic": {"kind": "xlvin", "executor": "erdos-renyi-stochastic", "samples": 3},
    "xlvin-stochastic-imagine": {"kind": "xlvin", "executor": "erdos-renyi-stochastic", "samples": 3},
    "ppo-gaussian": {"kind": "gaussian"},
    "dqn": {"kind": "ppo", "tail": "values"},
    "xlvin-dqn": {"kind": "xlvin", "executor": "random-deterministic", "tail": "values"},
    "treeqn": {"kind": "atreec", "tail": "values"},
    "vpn": {"kind": "vpn", "tail": "values"},
}
# Agents that also learn inside a model of their world; the networks are the same.
IMAGINING = tuple(name for name in AGENTS if name.endswith("-imagine"))

# Agents whose logits are action values, learned by Q-learning from replay.
VALUE_BASED = tuple(name for name, fields in AGENTS.items() if fields.get("tail") == "values")


def named(name: str) -> dict[str, Any]:
    """The configuration fields behind an agent's name."""
    if name not in AGENTS:
        raise unknown("agent", name, AGENTS)
    return AGENTS[name]


def make_agent(
    name: str = "xlvin-r", *, observation: tuple[int, ...], actions: int, seed: int = 0, **fields: Any
) -> Agent:
    """A fresh agent by name, for a training loop of your own; `fields` are those of AgentConfig."""
    try:
        config = AgentConfig(**{**named(name), "observation": observation, "actions": actions, **fields})
    except TypeError as error:
        raise XLVINError(f"An agent is not configured like this ({error}); see xlvin.AgentConfig.") from error
    return build(config, seed)


def build(config: AgentConfig, seed: int) -> Agent:
    """A fresh agent whose weights depend on `seed` alone."""
    with torch.inference_mode(False), seeded(seed):  # weights that can be trained, and watched for changes
        return _network(config)


def executor_hash(config: AgentConfig) -> str | None:
    """What the executor inside is known by; None if there is none, or an untrained one."""
    if not config.executes or config.executor == UNTRAINED:
        return None
    return str(load_provenance(config.executor)["sha256"])


def load(path: str | Path) -> Agent:
    """Read an agent that `agent.save` wrote."""
    weights, description = load_tensors(Path(path))
    if description.get("format") != FORMAT:
        raise XLVINError(f"{path} holds no xlvin agent; give a file written by `agent.save`.")
    return restore(description, weights, str(path))


def restore(description: dict[str, Any], weights: dict[str, Tensor], source: str) -> Agent:
    """An agent from `Agent.description` and its weights, verified name by name and shape by shape."""
    try:
        config, executor = AgentConfig.from_dict(description["config"]), description["executor"]
        largest = max(weight.numel() for weight in weights.values())
        outputs = sum(config.bins) or config.actions
        if max(config.hidden, config.latent, outputs, *config.observation) > largest:
            raise ValueError("the configuration asks for more memory than the weights can fill")
        with torch.inference_mode(False), seeded(0):
            agent = _skeleton(config, executor)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, RuntimeError) as error:
        raise XLVINError(
            f"The agent in {source} does not fit this version of xlvin; train it anew."
        ) from error
    check_tensors(source, weights, agent.state_dict())
    with torch.inference_mode(False):
        agent.load_state_dict(weights)
    return agent.eval()


def _skeleton(config: AgentConfig, executor: dict[str, Any] | None) -> Agent:
    """An agent of the right shape, whose weights are still to come: no executor is looked for."""
    if not config.executes:
        return _network(config)
    if executor is None:
        raise KeyError("executor")
    shape = ExecutorConfig(**executor)
    if config.wiring == "aligned":
        return AlignedXLVINAgent(config, Executor(shape))
    network = PixelXLVINAgent if config.kind == "pixels" else XLVINAgent
    return network(config, Processor(shape))


def _network(config: AgentConfig) -> Agent:
    """The policy network that a configuration speaks of."""
    if config.kind == "ppo":
        return PPOAgent(config)
    if config.kind == "atreec":
        return ATreeCAgent(config)
    if config.kind == "vpn":
        return VPNAgent(config)
    if config.kind == "gaussian":
        return GaussianAgent(config)
    if config.kind == "pixels":
        return PixelXLVINAgent(config)
    return AlignedXLVINAgent(config) if config.wiring == "aligned" else XLVINAgent(config)
