"""Pretrain an executor on a family of synthetic MDPs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import tyro
from tqdm import tqdm

from xlvin.commands.parsing import Parser
from xlvin.errors import XLVINError
from xlvin.executor.artefact import check_writable, save_executor
from xlvin.executor.pretrain import PretrainConfig, Progress, preset, pretrain
from xlvin.mdp.families import FAMILIES, find

EXAMPLES = f"""families: {", ".join(FAMILIES)}

  --out FILE.safetensors  where the weights go, by default FAMILY.safetensors here; a .json lies beside them
  --overwrite             replace weights that are there
  --json                  print the result as JSON

examples:
  xlvin pretrain random-deterministic
  xlvin pretrain cartpole-tree --out my-executor.safetensors --seed 3
  xlvin pretrain grid --states 25 --actions 4 --executor.width 64

Every field of the configuration can be set by name:
"""


def main(argv: list[str]) -> int:
    """Pretrain, write the weights and their provenance, print how good they are."""
    if not argv or "-h" in argv or "--help" in argv:
        usage = "xlvin pretrain FAMILY [--out FILE.safetensors] [--overwrite] [--json] [OPTIONS]"
        print(f"usage: {usage}\n\n{__doc__}\n\n{EXAMPLES}")
        tyro.cli(PretrainConfig, args=["--help"], prog="xlvin pretrain FAMILY")
    family, *rest = argv
    if family.startswith("-"):
        raise XLVINError(f"Name the family before {family}, as in `xlvin pretrain random-deterministic`.")
    find(family)
    options = Parser("xlvin pretrain", add_help=False, allow_abbrev=False)
    options.add_argument("--out", type=Path, default=Path(f"{family}.safetensors"))
    options.add_argument("--overwrite", action="store_true")
    options.add_argument("--json", action="store_true")
    chosen, overrides = options.parse_known_args(rest)
    config = tyro.cli(PretrainConfig, default=preset(family), args=overrides, prog=f"xlvin pretrain {family}")
    check_writable(chosen.out)
    if chosen.out.exists() and not chosen.overwrite:
        raise XLVINError(
            f"{chosen.out} is there already; choose another --out, or replace it by --overwrite."
        )

    started = time.monotonic()
    with tqdm(total=config.iterations, disable=None, desc=f"pretraining on {config.family}") as bar:
        executor, metrics = pretrain(config, _show(bar))
    sha256 = save_executor(chosen.out, executor, config, metrics)
    if chosen.json:
        print(json.dumps({"path": str(chosen.out), "sha256": sha256, "metrics": metrics}))
        return 0
    print(f"{chosen.out}: {time.monotonic() - started:.0f} s, sha256 {sha256}")
    print(
        f"held-out {config.family}, {config.states} states x {config.actions} actions: one-step error "
        f"{metrics['one_step_error']:.1e}, policy accuracy {100 * metrics['policy_accuracy']:.2f} %"
    )
    return 0


def _show(bar: tqdm) -> Progress:
    """A progress callback that moves the bar and names loss and accuracy."""

    def show(iteration: int, loss: float, accuracy: float) -> None:
        bar.update(iteration - bar.n)
        if iteration % 50 == 0:
            bar.set_postfix(loss=f"{loss:.1e}", accuracy=f"{100 * accuracy:.1f} %")

    return show
