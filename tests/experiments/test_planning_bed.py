"""The planning bed from problem to page, on small MDPs; and what its committed records must show."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from xlvin.cli import main
from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_provenance
from xlvin.experiments import planning_bed
from xlvin.experiments.planning_arms import ABLATIONS, ARMS, PRETRAINED, Sizes
from xlvin.experiments.planning_bed import (
    BEST,
    DEPTH,
    FEW,
    BedConfig,
    Cell,
    LabelledLoss,
    ModelLoss,
    draw_problem,
    solve,
    uniform_value,
)
from xlvin.experiments.workers import Effort
from xlvin.mdp.tabular import TabularMDP
from xlvin.report.records import Record, read_all, write

REPOSITORY = Path(__file__).parent.parent.parent
TINY = BedConfig(states=6, actions=2, observation=3, latent=4, hidden=5, steps=3, label_steps=2, seeds=2)


def test_a_problem_is_an_mdp_seen_through_a_veil() -> None:
    config = BedConfig()
    problem = draw_problem(config, 8, seed=3)
    assert problem.observation.shape == (32, 16)
    assert problem.observation.abs().max() < 1.0
    assert 0.15 < (problem.reward != 0.0).float().mean() < 0.45
    assert len(set(problem.labelled.tolist())) == 8
    assert problem.optimal.gather(1, problem.optimal.int().argmax(1, keepdim=True)).all()
    assert problem.optimal[problem.labelled, problem.label].all()


def test_fewer_labels_are_a_part_of_more_and_seeds_differ() -> None:
    few, many = (draw_problem(TINY, labels, seed=3) for labels in (2, 4))
    assert torch.equal(few.labelled, many.labelled[:2])
    assert torch.equal(few.reward, many.reward)
    assert not torch.equal(few.reward, draw_problem(TINY, 2, seed=4).reward)


def test_the_uniform_value_is_that_of_the_uniform_policy() -> None:
    # Action 0 stays, action 1 goes to state 1, which pays 1 for staying and is never left.
    successor, reward = torch.tensor([[[0, 1], [1, 1]]]), torch.tensor([[[0.0, 0.0], [1.0, 1.0]]])
    mdp = TabularMDP.deterministic(successor, reward, 0.5)
    # V(1) = 1 / (1 - 0.5) = 2;  V(0) = 0.5 (0.5 V(0) + 0.5 V(1)) = 0.25 V(0) + 0.5
    torch.testing.assert_close(uniform_value(mdp), torch.tensor([[2.0 / 3.0, 2.0]]))


@pytest.mark.parametrize("name", [*ARMS, *ABLATIONS])
def test_every_arm_learns_from_labels_and_has_the_same_model_losses(name: str) -> None:
    arm, problem = (ARMS | ABLATIONS)[name], draw_problem(TINY, 2, seed=0)
    torch.manual_seed(0)
    learner = arm.build(Sizes(3, 2, 0.9, 2, 4, 5, 5.0))
    negative = torch.zeros(6, 2, dtype=torch.int64)
    model, labelled = (kind(learner, TINY, arm.without) for kind in (ModelLoss, LabelledLoss))
    h = learner.encoder(problem.observation)
    told = torch.nn.functional.cross_entropy(learner.logits(h)[problem.labelled], problem.label)
    difference = labelled(problem, negative) - model(problem, negative)
    torch.testing.assert_close(difference, told, rtol=1e-3, atol=1e-3)
    grounded = {
        loss: torch.autograd.grad(model(problem, negative), part, allow_unused=True)[0]
        for loss, part in {
            "reward": next(learner.model.reward.parameters()),
            "value": learner.model.value.weight,
            "transe": learner.model.transition.output.weight,
        }.items()
    }
    assert [loss for loss, gradient in grounded.items() if not gradient.any()] == [arm.without] * bool(
        arm.without
    )
    frozen = [w for n, w in learner.named_parameters() if "executor" in n or "processor" in n]
    thawed = {"decoder-relearned": 2, "executor-unfrozen": len(frozen)}
    assert sum(weight.requires_grad for weight in frozen) == thawed.get(name, 0)


@pytest.mark.parametrize("name", ["none", "aligned-random", "free-projection"])
def test_a_seed_in_company_is_the_seed_alone(name: str) -> None:
    depth = 2 if name != "none" else 0
    together = solve(Cell(name, depth, 2, replace(TINY, steps=30, label_steps=20, seeds=3)))
    alone = solve(Cell(name, depth, 2, replace(TINY, steps=30, label_steps=20, seeds=1, first_seed=1)))
    assert together[1] == alone[0]
    assert {entry["seed"] for entry in together} == {0, 1, 2}


def test_labels_are_learned_and_score_apart() -> None:
    config = replace(
        TINY,
        steps=200,
        label_steps=190,
        learning_rate=0.03,
        reward_coef=1.0,
        value_coef=1.0,
        transe_coef=0.1,
    )
    entries = solve(Cell("none", 0, 3, config))
    assert all(entry["labelled"] == 1.0 for entry in entries)
    assert all(entry["score"] in (0.0, 0.333333, 0.666667, 1.0) for entry in entries)


def solved(cell: Cell) -> list[dict[str, float]]:
    return [{"seed": seed, "score": 0.5, "labelled": 1.0} for seed in cell.config.seed_list]


def test_as_many_seeds_as_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning_bed, "solve", solved)
    for seeds in (2, 3, 2):
        planning_bed.run(tmp_path, Effort(("depth-1/labels-8/aligned-random",), 1, seeds=seeds))
    (record,) = read_all(tmp_path, "planning-bed")
    assert [entry["seed"] for entry in record.seeds] == [0, 1, 2]


def test_a_run_keeps_every_cell_and_does_none_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    effort = Effort(only=("depth-1/labels-8/aligned-random",), workers=1)
    monkeypatch.setattr(planning_bed, "solve", solved)
    planning_bed.run(tmp_path, effort)
    assert "1/1 depth-1/labels-8/aligned-random: 50.0 %" in capsys.readouterr().err
    for seeds in (None, 3):
        planning_bed.run(tmp_path, replace(effort, seeds=seeds))
        assert capsys.readouterr().err == "", "a record with more seeds is kept"
    (record,) = read_all(tmp_path, "planning-bed")
    assert record.config["depth"] == 1
    assert record.command == "xlvin reproduce planning-bed --only depth-1/labels-8/aligned-random"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of all cells with made-up scores: arms differ by a point per place in the list."""
    folder = tmp_path_factory.mktemp("results")
    order = [*ARMS, *ABLATIONS]
    for cell in planning_bed.cells(Effort()):
        base = 0.1 + 0.01 * order.index(cell.arm)
        write(
            Record(
                experiment="planning-bed",
                version=f"depth-{cell.depth}",
                environment=f"labels-{cell.labels}",
                agent=cell.arm,
                seeds=[{"seed": seed, "score": base + 0.1 * seed, "labelled": 1.0} for seed in range(3)],
                config={"depth": cell.depth, "labels": cell.labels},
                command="made up",
                versions={},
                machine={},
                seconds=0.0,
            ),
            folder,
        )
    return folder


def differences(results: Path) -> dict[tuple[int, int, str], dict[str, Any]]:
    """What the aligned, pretrained executor is ahead by: labels, depth, other arm -> comparison."""
    return {
        (row["labels"], row["depth"], row["second"]): row
        for row in planning_bed.comparisons(results)
        if row["first"] == BEST
    }


def test_rows_and_comparisons_come_from_the_records(results: Path) -> None:
    table = planning_bed.rows(results)
    assert len(table) == 3 * len(ARMS) + 3 * 4 + len(ABLATIONS)
    first = table[0]
    assert (first["agent"], first["depth"], first["labels"], first["seeds"]) == ("none", 0, 4, 3)
    assert first["mean"] == pytest.approx(0.2)
    place = {name: index for index, name in enumerate([*ARMS, *ABLATIONS])}
    for row in planning_bed.comparisons(results):
        assert row["difference"] == pytest.approx(place[row["first"]] - place[row["second"]])
    compared = differences(results)
    assert (FEW, DEPTH, "reward-head") in compared
    depths = [depth for labels, depth, other in compared if (labels, other) == (FEW, "aligned-random")]
    assert sorted(depths) == [1, 2, 3, 4]


def test_the_command_works_from_records(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "experiments" / "planning-bed.md"
    page.parent.mkdir()
    page.write_text("# Page\n<!-- results -->\n<!-- /results -->\n")
    arguments = ["reproduce", "planning-bed", "--from-records", "--results", str(results)]
    arguments += ["--docs", str(tmp_path)]
    assert main(arguments) == 0
    text = planning_bed.summary(results)
    assert capsys.readouterr().out.startswith(text)
    assert page.read_text() == f"# Page\n<!-- results -->\n{text}\n<!-- /results -->\n"
    assert (tmp_path / "figures" / "planning-bed.png").read_bytes().startswith(b"\x89PNG")
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == planning_bed.rows(results)


def test_missing_records_are_named(results: Path, tmp_path: Path) -> None:
    for record in read_all(results, "planning-bed"):
        if record.agent != "executor-of-100-iterations":
            write(record, tmp_path)
    with pytest.raises(XLVINError, match=r"1 records such as .*executor-of-100-iterations are missing"):
        planning_bed.rows(tmp_path)


def test_planning_pays_in_the_committed_records() -> None:
    compared = differences(REPOSITORY / "results")
    random = compared[FEW, DEPTH, "aligned-random"]
    assert random["difference"] >= 40.0
    assert random["low"] >= 30.0
    assert compared[FEW, DEPTH, "reward-head"]["difference"] >= 15.0
    paper = compared[FEW, DEPTH, "paper-pretrained"]
    assert paper["low"] > 20.0


def test_the_page_shows_the_committed_records() -> None:
    results = REPOSITORY / "results"
    page = (REPOSITORY / "docs" / "experiments" / "planning-bed.md").read_text()
    assert planning_bed.summary(results) in page
    records = read_all(results, "planning-bed")
    assert {len(record.seeds) for record in records} == {24}
    assert {record.config["executor_sha256"] for record in records} == {load_provenance(PRETRAINED)["sha256"]}
