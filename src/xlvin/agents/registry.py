"""Agents by name, and how to build one."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import torch

from xlvin.agents.base import FORMAT, Agent, AgentConfig
from xlvin.agents.networks import UNTRAINED, ATreeCAgent, PPOAgent, XLVINAgent
from xlvin.errors import XLVINError
from xlvin.storage import load_tensors

# What a name stands for: fields of AgentConfig.
AGENTS: dict[str, dict[str, Any]] = {
    "xlvin-r": {"kind": "xlvin", "executor": "random-deterministic"},
    "xlvin-cp": {"kind": "xlvin", "executor": "cartpole-tree"},
    "xlvin-untrained": {"kind": "xlvin", "executor": UNTRAINED},
    "ppo": {"kind": "ppo"},
    "atreec": {"kind": "atreec"},
}
_KINDS: dict[str, type[Agent]] = {"xlvin": XLVINAgent, "ppo": PPOAgent, "atreec": ATreeCAgent}


def named(name: str) -> dict[str, Any]:
    """The configuration fields behind an agent's name."""
    if name not in AGENTS:
        near = difflib.get_close_matches(name, AGENTS, 1)
        hint = f'Did you mean "{near[0]}"?' if near else f"Choose one of: {', '.join(AGENTS)}."
        raise XLVINError(f'There is no agent "{name}". {hint}')
    return AGENTS[name]


def build(config: AgentConfig, seed: int) -> Agent:
    """A fresh agent whose weights depend on `seed` alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _KINDS[config.kind](config)


def load(path: str | Path) -> Agent:
    """Read an agent that `agent.save` wrote."""
    weights, metadata = load_tensors(Path(path))
    if metadata.get("format") != FORMAT:
        raise XLVINError(f"{path} holds no xlvin agent; give a file written by `agent.save`.")
    return restore(metadata["config"], weights, str(path))


def restore(config: dict[str, Any], weights: dict[str, torch.Tensor], source: str) -> Agent:
    """An agent from stored fields and weights, verified name by name and shape by shape."""
    try:
        fields = {name: tuple(value) if isinstance(value, list) else value for name, value in config.items()}
        agent = build(AgentConfig(**fields), seed=0)
        agent.load_state_dict(weights)
    except (TypeError, RuntimeError, KeyError) as error:
        raise XLVINError(f"The agent in {source} does not fit this version of xlvin; train it anew.") from error
    return agent.eval()
