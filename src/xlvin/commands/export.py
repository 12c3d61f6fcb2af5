"""`xlvin export RUN`: a trained agent as one ONNX file, its planner inside, checked against torch."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from xlvin.commands.members import member
from xlvin.export import PROBES
from xlvin.export import export as export_agent

EXAMPLES = """

examples:
  xlvin export runs/CartPole-v0-xlvin-r-1a2b3c4d
  xlvin export runs/CartPole-v0-xlvin-r-1a2b3c4d --seed 3 --output agent.onnx
  xlvin export agent.safetensors --json
"""


def export(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    seed: int | None = None,
    output: Path | None = None,
    as_json: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="json")] = False,
) -> None:
    """Write a trained agent as ONNX: observations in, logits and values out, any batch size.

    The file is kept only if onnxruntime agrees with torch to 1e-5.

    Args:
        run: The folder of a run, or the file of an agent.
        seed: Whose agent; by default that of the run's first seed.
        output: Where the file goes; by default agent.onnx in the run's folder, or beside the agent's file.
        as_json: Print the result as JSON.
    """
    chosen = member(run, seed)
    path = output or (run / "agent.onnx" if run.is_dir() else run.with_suffix(".onnx"))
    found = export_agent(chosen.agent, path, chosen.notes)
    if as_json:
        print(json.dumps({**asdict(found), "path": str(path), **chosen.notes}))
        return
    tied = f", but for {found.tied:.2%} of them where a beam ties" if found.tied else ""
    print(f"{path}: {found.size / 1e3:.0f} kB")
    print(f"  agrees with torch to {found.largest_difference:.0e} on {sum(PROBES)} observations{tied}")
    print(
        f"  one decision: {found.onnx_ms:.3f} ms in onnxruntime, {found.torch_ms:.3f} ms here; "
        f"{PROBES[-1]} at once: {found.onnx_batch_ms:.2f} ms, {found.torch_batch_ms:.2f} ms"
    )


def main(argv: list[str]) -> int:
    """Export and print."""
    tyro.cli(export, args=argv, prog="xlvin export", description=__doc__ + EXAMPLES)
    return 0
