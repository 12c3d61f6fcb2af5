"""Value iteration with full traces on 4,096 random deterministic MDPs, against a plain loop over states.

    python benchmarks/value_iteration.py

The bar is 2 seconds on two cores; the exit code is 1 above it.
"""

from __future__ import annotations

import os
import sys
import time

# Threads that spin while they wait cost a factor of ten on a machine that does anything else. OpenMP reads
# this when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch

from xlvin.mdp.families import sample
from xlvin.mdp.tabular import TabularMDP
from xlvin.mdp.value_iteration import value_iteration

BAR_S = 2.0
MDPS, STATES, ACTIONS, DISCOUNT, TOLERANCE = 4096, 20, 8, 0.9, 1e-4
LOOPED = 64  # MDPs for the plain loop
REPEATS = 5


def seconds(mdp: TabularMDP) -> float:
    """The best of a few runs: what the code takes when the machine does not interfere."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        value_iteration(mdp, TOLERANCE)
        times.append(time.perf_counter() - started)
    return min(times)


def loop_over_states(successor: np.ndarray, reward: np.ndarray) -> list[np.ndarray]:
    """The textbook: one MDP, state by state; its trace."""
    trace = [np.zeros(STATES, dtype=np.float32)]
    while len(trace) < 2 or np.abs(trace[-1] - trace[-2]).max() >= TOLERANCE:
        previous = trace[-1]
        updated = np.empty_like(previous)
        for state in range(STATES):
            updated[state] = (reward[state] + DISCOUNT * previous[successor[state]]).max()
        trace.append(updated)
    return trace


def main() -> int:
    torch.set_num_threads(2)
    mdp = sample("random-deterministic", MDPS, STATES, ACTIONS, DISCOUNT, torch.Generator().manual_seed(0))
    batched = seconds(mdp)

    few = mdp.select(torch.arange(LOOPED))
    successor, reward = few.successor.squeeze(-1).numpy(), few.reward.numpy()
    started = time.perf_counter()
    traces = [loop_over_states(*pair) for pair in zip(successor, reward, strict=True)]
    looped = time.perf_counter() - started
    found = value_iteration(few, TOLERANCE)
    for member, trace in enumerate(traces):
        np.testing.assert_allclose(found.values[len(trace) - 1, member], trace[-1], atol=1e-3)

    ratio = (looped / LOOPED) / (batched / MDPS)
    print(
        f"value iteration with traces, {MDPS} MDPs {STATES}x{ACTIONS}, 2 threads: {batched:.2f} s "
        f"(bar {BAR_S:.0f} s), {ratio:.0f} times as fast as a loop over states ({LOOPED}: {looped:.2f} s)"
    )
    return int(batched > BAR_S)


if __name__ == "__main__":
    sys.exit(main())
