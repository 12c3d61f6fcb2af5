"""Which settings have no effect on a run, to tell users before they wait for one."""

from __future__ import annotations

from dataclasses import asdict

from xlvin.envs.environment import shapes_of
from xlvin.fields import flat
from xlvin.training.config import TrainConfig

# Beginnings of names of fields, by what a run needs for them to matter.
TREE = ("network.depth", "ppo.transe_coef")
EXECUTOR = ("network.executor", "network.wiring")
POLICY = (
    "ppo.epochs",
    "ppo.minibatches",
    "ppo.clip",
    "ppo.entropy_coef",
    "ppo.gae_lambda",
    "ppo.recompute",
)
REAL_DATA = ("ppo.reward_scale", "ppo.novelty_coef")


def without_effect(start: TrainConfig, config: TrainConfig) -> list[str]:
    """The fields of a configuration that are not as in `start` and do not matter to the run, by name."""
    before, names = flat(asdict(start)), _idle(config)
    return [
        name
        for name, value in flat(asdict(config)).items()
        if value != before[name] and name.startswith(names)
    ]


def _idle(config: TrainConfig) -> tuple[str, ...]:
    """Beginnings of the names of fields that do not matter."""
    network = config.network
    names: list[str] = []
    if network.kind in ("ppo", "gaussian"):
        names += TREE
    if network.kind == "vpn":
        names.append("ppo.transe_coef")
    elif network.tail == "values":
        names.append("ppo.value_coef")
    if network.kind not in ("atreec", "vpn") and network.wiring != "aligned":
        names.append("ppo.reward_coef")
    if not network.executes:
        names += EXECUTOR
    if network.wiring != "aligned":
        names.append("network.sharpness")
    if network.bins and not shapes_of(config.environment).vectors:
        names.append("network.bins")
    if config.budget.unit == "trajectories":
        names.append("budget.environments")
    names += POLICY if network.tail == "values" else ["values."]
    names += REAL_DATA if config.imagination.last_iterations else ["imagination."]
    return tuple(names)
