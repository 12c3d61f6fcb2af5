"""`xlvin list`: agents, environments, presets, executors and experiments that there are."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Callable
from typing import Annotated, get_args

import gymnasium
import tyro

from xlvin.agents.registry import AGENTS, IMAGINING, VALUE_BASED
from xlvin.commands.reproduce import EXPERIMENTS
from xlvin.envs.atari import is_atari, register
from xlvin.errors import XLVINError
from xlvin.executor.artefact import SHIPPED, load_provenance
from xlvin.report.tables import Row, plain
from xlvin.training.presets import CONTINUOUS, CONTROL, STOCHASTIC, Version, preset

# The paper's, without sticky actions; all others have the same settings.
GAMES = tuple(f"{game}NoFrameskip-v4" for game in ("Alien", "Enduro", "Freeway", "Hero"))
# Those with settings of their own, and the versions in which they have them.
SETTINGS: dict[str, tuple[Version, ...]] = {
    **dict.fromkeys(CONTROL, get_args(Version)),
    **dict.fromkeys((*CONTINUOUS, *STOCHASTIC), ("tuned",)),
}
EXAMPLES = """

examples:
  xlvin list
  xlvin list environments
  xlvin list executors --json
"""


def agents() -> list[Row]:
    """Names for --agent and what they stand for."""
    found = []
    for name, fields in AGENTS.items():
        told = [f"{key} {value}" for key, value in fields.items()]
        told += ["learns in imagination too"] if name in IMAGINING else []
        told += ["learns by Q-learning"] if name in VALUE_BASED else []
        found.append({"agent": name, "stands for": ", ".join(told)})
    return found


def environments() -> list[Row]:
    """Registered environments, those with settings of their own first."""
    with contextlib.suppress(XLVINError):  # Atari games are an optional part
        register("Atari")
    others = sorted(set(gymnasium.registry) - set(SETTINGS))
    return [
        *({"environment": name, "settings": ", ".join(versions)} for name, versions in SETTINGS.items()),
        *({"environment": name, "settings": "paper" if is_atari(name) else "general"} for name in others),
    ]


def presets() -> list[Row]:
    """Settings by environment and version; what they hold for XLVIN-R."""
    found = [_preset(name, version) for name, versions in SETTINGS.items() for version in versions]
    with contextlib.suppress(XLVINError):
        found += [_preset(name, "paper") for name in GAMES]
    return found


def executors() -> list[Row]:
    """Shipped executors and how well they run value iteration on fresh MDPs of their own family."""
    return [
        {
            "executor": name,
            "family": facts["family"],
            "discount": facts["discount"],
            "policy accuracy": f"{100 * facts['metrics']['policy_accuracy']:.2f} %",
        }
        for name in SHIPPED
        for facts in [load_provenance(name)]
    ]


def experiments() -> list[Row]:
    """Names for `xlvin reproduce`."""
    docs = {name: importlib.import_module(module).__doc__ or "" for name, module in EXPERIMENTS.items()}
    return [{"experiment": name, "what": doc.partition("\n")[0]} for name, doc in docs.items()]


KINDS: dict[str, Callable[[], list[Row]]] = {
    "agents": agents,
    "environments": environments,
    "presets": presets,
    "executors": executors,
    "experiments": experiments,
}


def list_(
    kind: Annotated[
        str | None, tyro.conf.Positional, tyro.conf.arg(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")
    ] = None,
    as_json: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="json")] = False,
) -> None:
    """Say what there is, of one kind or of all.

    Args:
        as_json: Print it as JSON.
    """
    if kind is not None and kind not in KINDS:
        raise XLVINError(f'There is no list of "{kind}"; choose one of: {", ".join(KINDS)}.')
    found = {name: rows() for name, rows in KINDS.items() if kind in (None, name)}
    if as_json:
        print(json.dumps(found if kind is None else found[kind], indent=1))
        return
    if kind is None:  # Gymnasium's hundreds only when asked for
        found["environments"] = found["environments"][: len(SETTINGS)]
    titles = (f"{name}\n\n" if kind is None else "" for name in found)
    print("\n\n".join(title + plain(rows) for title, rows in zip(titles, found.values(), strict=True)))
    if kind is None:
        print(
            "\nEvery registered environment with discrete or bounded continuous actions can be trained: "
            "`xlvin list environments`."
        )


def _preset(environment: str, version: Version) -> Row:
    config = preset(environment, "xlvin-r", version)
    data = f"{config.budget.total:,} {config.budget.unit}"
    shape = {"hidden": config.network.hidden, "depth": config.network.depth}
    return {"environment": environment, "preset": version, "data": data} | shape


def main(argv: list[str]) -> int:
    """Collect and print."""
    tyro.cli(list_, args=argv, prog="xlvin list", description=__doc__ + EXAMPLES)
    return 0
