"""The experiment on stochastic worlds, shrunk: cells, records, tables and figure."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from xlvin.experiments import stochastic
from xlvin.experiments import stochastic_bed as bed
from xlvin.experiments.control import Cell, keep, run_cell
from xlvin.experiments.workers import Effort
from xlvin.mdp.value_iteration import value_iteration
from xlvin.report import tables
from xlvin.report.records import write
from xlvin.training.config import Budget
from xlvin.training.presets import preset

SMALL = replace(bed.CONFIG, seeds=2, steps=4, label_steps=2, hidden=8, latent=6)


@pytest.fixture(autouse=True)
def two_seeds_make_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FEWEST_SHARED", 2)


def test_every_cell_has_its_seeds_and_twins_share_their_settings() -> None:
    found: dict[str, list[int]] = {}
    configs = {}
    for cell in stochastic.cells(Effort(seeds=3)):
        found.setdefault(cell.name, []).extend(cell.config.seed_list)
        configs[cell.name] = cell.config
    assert len(found) == 3 * len(stochastic.AGENTS)
    assert all(sorted(seeds) == [0, 1, 2] for seeds in found.values())
    for name, config in configs.items():
        if config.agent in stochastic.TWINS:
            twin = configs[name.replace(config.agent, stochastic.TWINS[config.agent])]
            network = replace(twin.network, samples=1, executor=config.network.executor)
            assert replace(twin, agent=config.agent, network=network) == config
            assert twin.network.samples == 3


def test_gambles_pay_for_those_who_see_how_they_came_out() -> None:
    for seed in range(5):
        problem, mdp = bed.draw_problem(bed.CONFIG, seed)
        assert torch.allclose(mdp.probability.sum(-1), torch.ones(mdp.reward.shape))
        values = value_iteration(mdp).final[0]
        outcomes = mdp.successor[0, : bed.DECISIONS]
        risky = outcomes[..., 0] != outcomes[..., 1]
        reward = mdp.reward[0][outcomes]  # [D, A, 2, A]
        seen = mdp.discount * reward.amax(-1).mean(-1)
        blind = mdp.discount * reward.mean(-2).amax(-1)
        assert torch.allclose(values[: bed.DECISIONS], seen.amax(-1), atol=1e-3)
        assert torch.allclose(blind[risky], torch.zeros(()), atol=1e-6)
        assert torch.equal(problem.optimal[: bed.DECISIONS].float().argmax(-1), seen.argmax(-1))
        assert torch.allclose(problem.value[: bed.DECISIONS].mean(), blind.mean(), atol=0.3)
    assert risky.any()
    assert not risky.all()


@pytest.mark.parametrize("arm", bed.ARMS)
def test_every_arm_learns_something(arm: str) -> None:
    entries = bed.solve(bed.BedCell(arm, 2, SMALL))
    assert [entry["seed"] for entry in entries] == [0, 1]
    assert all(0.0 <= entry["score"] <= 1.0 for entry in entries)


def test_transitions_are_drawn_by_their_probabilities() -> None:
    _, mdp = bed.draw_problem(bed.CONFIG, 0)
    stream = torch.Generator().manual_seed(0)
    drawn = torch.stack([bed._draw([mdp], [stream])[0][0] for _ in range(400)])  # [400, S, A]
    heads = (drawn == mdp.successor[0, ..., 0]).float().mean(0)
    risky = mdp.successor[0, ..., 0] != mdp.successor[0, ..., 1]
    assert heads[risky].mean().item() == pytest.approx(0.5, abs=0.02)
    assert (heads[~risky] == 1.0).all()


def tiny(version: str, environment: str, agent: str) -> Cell:
    config = preset(environment, agent)
    network, ppo = replace(config.network, depth=1, hidden=8), replace(config.ppo, epochs=1)
    config = replace(config, network=network, ppo=ppo, budget=Budget(total=2, per_round=2))
    return Cell(version, replace(config, seeds=2, evaluation_episodes=2))


def test_rows_summary_and_figure_come_from_records(tmp_path: Path) -> None:
    worlds = [("episodes-2000", stochastic.LAKE), ("episodes-10", stochastic.PUSHED)]
    for version, environment in worlds:
        for agent in ("xlvin-r", "xlvin-stochastic"):
            cell = tiny(version, environment, agent)
            keep(tmp_path, stochastic.NAME, cell, run_cell(cell))
    for arm in ("aligned-1", "aligned-3"):
        write(bed.measure(stochastic.NAME, bed.BedCell(arm, 1, SMALL)), tmp_path)
    rows = stochastic.rows(tmp_path)
    assert [(row["environment"], row["agent"]) for row in rows] == [
        (stochastic.LAKE, "xlvin-r"),
        (stochastic.LAKE, "xlvin-stochastic"),
        (stochastic.PUSHED, "xlvin-r"),
        (stochastic.PUSHED, "xlvin-stochastic"),
        ("depth-1", "aligned-1"),
        ("depth-1", "aligned-3"),
    ]
    pairs = stochastic.comparisons(tmp_path)
    assert [pair["compared"] for pair in pairs] == [
        "xlvin-stochastic - xlvin-r",
        "xlvin-stochastic - xlvin-r",
        "aligned-3 - aligned-1",
    ]
    assert pairs[1]["difference"] == pytest.approx(rows[3]["mean"] - rows[2]["mean"], abs=1e-3)
    summary = stochastic.summary(tmp_path)
    assert "### Gambles" in summary
    assert f"{rows[2]['mean']:.1f}" in summary
    stochastic.figure(tmp_path, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_finished_cells_are_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = tiny("episodes-10", stochastic.PUSHED, "ppo")
    monkeypatch.setattr(stochastic, "cells", lambda effort: [cell])
    monkeypatch.setattr(bed, "cells", lambda depths, seeds, device: [bed.BedCell("paper-1", 1, SMALL)])
    stochastic.run(tmp_path, Effort(workers=1))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert len(before) == 2
    stochastic.run(tmp_path, Effort(workers=1))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == before
