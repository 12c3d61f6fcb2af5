"""What training draws from traces."""

import torch

from xlvin.executor.traces import TracedMDPs, trace_family
from xlvin.mdp.value_iteration import sweep


def traced(
    count: int = 20, level: float = 0.0, spread: float = 0.0, seed: int = 0
) -> tuple[TracedMDPs, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    return trace_family("random-deterministic", count, 6, 3, 0.9, 1e-4, generator, level, spread), generator


def test_a_drawn_sweep_is_one_step_of_value_iteration_on_its_own_mdp() -> None:
    mdps, generator = traced()
    sweeps = mdps.draw(50, 2.0, generator)
    assert sweeps.before.shape == (50, 6)
    torch.testing.assert_close(sweep(sweeps.mdp, sweeps.before), sweeps.after)


def test_no_sweep_is_drawn_beyond_the_convergence_of_its_mdp() -> None:
    mdps, generator = traced()
    sweeps = mdps.draw(2000, 0.05, generator)  # almost always the last
    change = (sweeps.after - sweeps.before).abs().amax(-1)
    last = (mdps.trace.steps.min(), mdps.trace.steps.max())
    assert last[0] < last[1], "all MDPs converge together, the test says nothing"
    # The last change is the first below 1e-4: one sweep later it would be below 0.9e-4.
    assert change.min() > 1e-4 * 0.9**2


def test_skew_prefers_early_sweeps() -> None:
    mdps, generator = traced()
    change = [
        (s.after - s.before).abs().mean().item()
        for s in (mdps.draw(2000, skew, generator) for skew in (1.0, 4.0))
    ]
    assert change[1] > 2 * change[0]


def test_traces_start_at_zero_or_at_noise() -> None:
    assert not traced()[0].trace.values[0].any()
    noisy = traced(count=200, level=8.0, spread=3.0)[0].trace.values
    assert 2.7 < noisy[0].std(-1).mean() < 3.1
    assert 7.0 < noisy[0].mean(-1).std() < 9.5
    torch.testing.assert_close(noisy[-1], traced(count=200)[0].trace.final, atol=5e-3, rtol=0.0)


def test_the_same_seed_draws_the_same() -> None:
    (first, one), (second, two) = traced(), traced()
    torch.testing.assert_close(first.draw(9, 2.0, one).after, second.draw(9, 2.0, two).after, atol=0, rtol=0)
    assert not torch.equal(first.mdp.reward, traced(seed=1)[0].mdp.reward)
