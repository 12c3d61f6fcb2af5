"""Agents as ONNX: one file with encoder, planner and heads, for any runtime, without Python or torch.

The file takes observations as the environment gives them, in batches of any size, and gives logits [B, A] and
values [B]. It is kept only if onnxruntime computes from it what torch computes from the agent.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from xlvin.agents.base import Agent, AgentConfig
from xlvin.errors import RunFailedError, XLVINError
from xlvin.files import write_atomically
from xlvin.observations import DISCRETE

if TYPE_CHECKING:
    import onnx
    import onnxruntime

TOLERANCE = 1e-5
# A beam keeps the most probable paths: where two are as probable up to rounding, runtimes may keep either.
TIES = 0.01
# Batches that are compared: one, few, and more than fit into one piece of the planner's work.
PROBES = (1, 7, 512)
# Times are medians of this many decisions, or of those that fit into some seconds.
REPEATS, LONGEST = 30, 0.5
# A count -> that many random observations.
Probe = Callable[[int], Tensor]


@dataclass(frozen=True)
class Exported:
    """What was checked and measured before the file was kept."""

    path: Path
    size: int  # bytes
    largest_difference: float  # of logits and values, relative to their scale where that is above 1
    tied: float  # share of the observations where a beam chose between equally probable paths
    torch_ms: float  # median time of one decision, `Agent.predict`'s way
    onnx_ms: float  # the same in onnxruntime, one thread
    torch_batch_ms: float  # and of PROBES[-1] decisions at once
    onnx_batch_ms: float


def export(agent: Agent, path: str | Path, notes: dict[str, Any] | None = None) -> Exported:
    """Write `agent` to `path` as ONNX; `notes` join the file's metadata."""
    path = Path(path)
    if path.suffix != ".onnx":
        raise XLVINError(f'"{path}" is no name for an ONNX file; let it end in .onnx.')
    runtime = _require()
    agent = copy.deepcopy(agent).cpu().eval()
    probe = partial(_observations, agent.config)
    model = _translate(_Deployed(agent).eval(), probe(2))
    content = model.SerializeToString()
    session = _session(runtime, content)
    difference, tied = _compare(agent, session, probe)
    times = [_median_ms(act) for act in _contenders(agent, session, probe)]
    _describe(model, agent, notes or {}, difference)
    content = model.SerializeToString()
    write_atomically(path, content)
    return Exported(path, len(content), difference, tied, *times)


class _Deployed(nn.Module):
    """An agent that reads observations as its environment gives them."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self.agent = agent

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, A] and values [B] of observations [B, *given]."""
        config = self.agent.config
        given = config.native_shape
        if given == DISCRETE:
            observation = nn.functional.one_hot(observation, config.observation[0]).float()
        elif given != config.observation:
            image = len(config.observation) == 3
            observation = observation.movedim(-1, -3) if image else observation.flatten(1)
        output = self.agent(observation)
        return output.logits, output.value


def _observations(config: AgentConfig, count: int) -> Tensor:
    """Random observations [count, *given], in the type that the file will take."""
    generator, given = torch.Generator().manual_seed(count), config.native_shape
    if given == DISCRETE:
        return torch.randint(config.observation[0], (count,), generator=generator)
    if len(config.observation) == 3 and config.image == "uint8":
        return torch.randint(256, (count, *given), generator=generator, dtype=torch.uint8)
    return torch.randn(count, *given, generator=generator)


def _require() -> Any:
    """onnxruntime, after making sure that the exporter's packages are there too."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise XLVINError(f"Export needs {error.name}; `pip install 'xlvin[export]'`.") from error
    return onnxruntime


def _translate(network: nn.Module, example: Tensor) -> onnx.ModelProto:
    """The network as an ONNX model whose first dimension is free."""
    with _quiet(), torch.no_grad():
        try:
            program = torch.onnx.export(
                network,
                (example,),
                input_names=["observation"],
                output_names=["logits", "value"],
                dynamic_shapes={"observation": {0: torch.export.Dim.DYNAMIC}},
                dynamo=True,
                verbose=False,
            )
        except Exception as error:
            reason = (str(error).strip() or repr(error)).splitlines()[0]
            raise XLVINError(
                f"This agent cannot be written as ONNX ({reason}); deploy it with torch."
            ) from error
    assert program is not None
    model = program.model_proto
    del model.graph.value_info[:]  # shapes of intermediate results, in terms of the dimension renamed here
    for entry in (*model.graph.input, *model.graph.output):
        entry.type.tensor_type.shape.dim[0].dim_param = "batch"
    return model


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter speaks of packages that nobody asked for, and of its own deprecations."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _session(runtime: Any, content: bytes) -> onnxruntime.InferenceSession:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _compare(agent: Agent, session: onnxruntime.InferenceSession, probe: Probe) -> tuple[float, float]:
    """The largest difference to torch, and the share of observations where a beam tied; both are bounded."""
    network, differences = _Deployed(agent), []
    for count in PROBES:
        observations = probe(count)
        with torch.inference_mode():
            expected = [output.numpy() for output in network(observations)]
        found = session.run(None, {"observation": observations.numpy()})
        parts = zip(found, expected, strict=True)
        differences.append(np.max([_difference(*part) for part in parts], axis=0))
    every = np.concatenate(differences)
    wrong = ~(every <= TOLERANCE)
    tied = float(wrong.mean())
    if tied > (TIES if agent.config.kept else 0.0):
        raise RunFailedError(
            f"onnxruntime differs from torch by {np.nanmax(every):.1e}, more than {TOLERANCE:.0e}; "
            "nothing was written."
        )
    return float(every[~wrong].max()), tied


def _difference(found: NDArray[Any], expected: NDArray[Any]) -> NDArray[Any]:
    """The largest difference of each row, relative to the largest number where that is above 1."""
    scale = max(1.0, float(np.abs(expected).max()))
    rows: NDArray[Any] = np.abs(found - expected).reshape(len(found), -1).max(1) / scale
    return rows


def _contenders(
    agent: Agent, session: onnxruntime.InferenceSession, probe: Probe
) -> Iterator[Callable[[], object]]:
    """One decision in torch and in onnxruntime, then many at once."""
    for count in (1, PROBES[-1]):
        observations = probe(count).numpy()
        yield lambda given=observations: agent.predict(given)  # type: ignore[misc]
        yield lambda given=observations: session.run(["logits"], {"observation": given})  # type: ignore[misc]


def _median_ms(act: Callable[[], object]) -> float:
    act()
    times: list[float] = []
    while len(times) < 3 or (len(times) < REPEATS and sum(times) < LONGEST):
        started = time.perf_counter()
        act()
        times.append(time.perf_counter() - started)
    return 1e3 * float(np.median(times))


def _describe(model: onnx.ModelProto, agent: Agent, notes: dict[str, Any], difference: float) -> None:
    """Say in the file what it is and where it comes from."""
    model.producer_name, model.producer_version = "xlvin", version("xlvin")
    model.doc_string = (
        "observation [batch, ...] as the environment gives it -> logits [batch, A], value [batch]"
    )
    executor = None if agent.executor is None else asdict(agent.executor)
    facts = {
        "agent": asdict(agent.config),
        "executor": executor,
        "versions": {package: version(package) for package in ("xlvin", "torch", "onnx", "onnxruntime")},
        "largest_difference": difference,
        **notes,
    }
    for key, value in facts.items():
        model.metadata_props.add(key=key, value=value if isinstance(value, str) else json.dumps(value))
