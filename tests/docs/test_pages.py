"""Every command of README and docs runs, and every tutorial from its first to its last line.

The pages show real budgets. Here they are cut down: the table below says how, command by command. A command
whose work cannot be cut down to seconds is parsed and stopped where it would begin; those are run, small, by
the tests of their own rooms.
"""

import functools
import importlib
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import xlvin
from xlvin.cli import COMMANDS, main
from xlvin.commands.reproduce import EXPERIMENTS
from xlvin.commands.sweep import plan
from xlvin.commands.train import configuration, parser
from xlvin.executor import pretrain as pretraining
from xlvin.mdp.families import FAMILIES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIALS = [page for page in PAGES if page.parent.name == "tutorials"]
SMALL_NETWORK = ["--network.hidden", "8", "--network.latent", "6"]

# Options that are given other values, and what is added.
SMALLER: dict[str, tuple[dict[str, str], list[str]]] = {
    "demo": ({}, ["--seeds", "1", "--trajectories", "2", "--episodes", "2"]),
    "train": (
        {"--trajectories": "2", "--transitions": "64"},
        ["--ppo.epochs", "1", "--evaluation-episodes", "2", *SMALL_NETWORK],
    ),
    "sweep": (
        {"--seeds": "2"},
        ["--trajectories", "2", "--ppo.epochs", "1", "--evaluation-episodes", "2", *SMALL_NETWORK],
    ),
    "evaluate": ({"--episodes": "2"}, []),
    "show": ({}, ["--steps", "3"]),
    "video": ({}, ["--steps", "5"]),
    "pretrain": ({}, ["--iterations", "2", "--pool", "16", "--validations", "1", "--validation-count", "4"]),
    "executor": ({}, ["--count", "2"]),
}
# Environments that take too long to make, let alone to train on.
HEAVY = re.compile(r"ALE/|NoFrameskip")


def blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and text."""
    fences = re.finditer(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [(fence[1], fence[2]) for fence in fences]


def commands(text: str) -> Iterator[list[str]]:
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("xlvin ") and (words := shlex.split(line, comments=True)[1:]):
            yield words[: words.index(">")] if ">" in words else words


def smaller(words: list[str]) -> list[str]:
    """The same command with less to do."""
    values, added = SMALLER.get(words[0], ({}, []))
    cut = [values.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    if words[0] == "train" and not {"--trajectories", "--transitions"} & set(words):
        added = ["--trajectories", "2", *added]
    if words[0] == "train" and "--network.depth" not in words:
        added = ["--network.depth", "1", *added]
    if words[0] == "executor":
        given = [] if "--families" in words else ["--families", "grid"]
        added = [*given, *([] if "--sizes" in words else ["--sizes", "20x8"]), *added]
    if words[0] == "reproduce":
        added = ["--results", str(ROOT / "results")]
    return cut + added


def is_parsed_only(words: list[str]) -> bool:
    if words[0] == "reproduce":
        return "--from-records" not in words or not (ROOT / "results" / words[1]).is_dir()
    on_a_cluster = words[0] == "sweep" and not {"auto", "HOST:6379"}.isdisjoint(words)
    return words[0] == "report" or on_a_cluster or bool(HEAVY.search(" ".join(words)))


def parse(words: list[str]) -> None:
    """Read the command line as the command would, and stop there."""
    if words[0] == "train":
        configuration(*parser().parse_known_args(words[1:]))
        return
    if words[0] == "sweep":
        assert plan(words[1:])[0]
        return
    module, called = importlib.import_module(f"xlvin.commands.{words[0]}"), []
    function: Callable[..., Any] = getattr(module, words[0])
    stop = functools.wraps(function)(lambda *given, **named: called.append(named))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, words[0], stop)
        assert main(words) == 0, words
    assert called, words


def prepare(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Some pages speak of a run that the reader is supposed to have: make one."""
    of_a_run = words[0] in ("evaluate", "show", "video", "export") and words[1].startswith("runs/")
    if of_a_run and not Path(words[1]).exists():
        assert main(smaller(["train", "CartPole-v0", "--folder", words[1]])) == 0
        capsys.readouterr()


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of its own for every page, with the documents that some commands renew, and little budgets."""
    train, pretrain = xlvin.train, pretraining.pretrain
    cut = {"trajectories": 2, "epochs": 2, "evaluation_episodes": 2}
    monkeypatch.setattr(xlvin, "train", lambda *given, **named: train(*given, **{**named, **cut}))
    few = {"iterations": 20, "pool": 16, "validation_count": 4}
    monkeypatch.setattr(
        pretraining, "pretrain", lambda config, *rest: pretrain(replace(config, **few), *rest)
    )
    monkeypatch.setattr("stable_baselines3.PPO.learn", _learn_a_little())
    monkeypatch.setattr(sys, "path", [*sys.path])
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("tutorials", "api"))
    shutil.copy(ROOT / "README.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    modules, families = set(sys.modules), set(FAMILIES)
    yield
    for name in FAMILIES.keys() - families:  # what a page added for its own use
        del FAMILIES[name]
    for name in set(sys.modules) - modules:  # what the page's own files defined
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def _learn_a_little() -> Callable[..., Any]:
    from stable_baselines3 import PPO

    learn = PPO.learn
    return lambda model, steps, **named: learn(model, min(steps, 256), **named)


@functools.cache
def shown() -> dict[str, list[list[str]]]:
    """The commands of every page that has some; of those that stand on several, the first."""
    seen: set[str] = set()
    found: dict[str, list[list[str]]] = {}
    for page in (page for page in PAGES if page not in TUTORIALS):
        every = [
            words for language, text in blocks(page) if language in ("", "sh") for words in commands(text)
        ]
        fresh = [words for words in every if " ".join(words) not in seen]
        seen |= {" ".join(words) for words in fresh}
        if fresh:
            found[str(page.relative_to(ROOT))] = fresh
    return found


@pytest.mark.parametrize("page", shown())
def test_every_command_runs(page: str, workshop: None, capsys: pytest.CaptureFixture[str]) -> None:
    for words in shown()[page]:
        assert words[0] in COMMANDS, words
        if is_parsed_only(words):
            parse(words)
            continue
        prepare(words, capsys)
        code = main(smaller(words))
        told = capsys.readouterr()
        assert code == 0, (words, told.err)
        assert told.out, words


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_tutorial_runs(page: Path, workshop: None, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    found = blocks(page)
    assert {language for language, _ in found} <= {"python", "sh"}
    assert len(found) >= 2
    for number, (language, text) in enumerate(found):
        if language == "sh":
            for words in commands(text):
                assert main(smaller(words)) == 0, (words, capsys.readouterr().err)
        elif file := re.match(r"# (\w+\.py)\n", text):
            Path(file[1]).write_text(text)
        else:
            exec(compile(text, f"{page.name} block {number}", "exec"), names)
    capsys.readouterr()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_page_tells_what_the_records_say(name: str) -> None:
    experiment = importlib.import_module(EXPERIMENTS[name])
    page = (ROOT / "docs" / "experiments" / f"{name}.md").read_text()
    assert experiment.summary(ROOT / "results") in page, f"run `xlvin reproduce {name} --from-records`"


def test_the_pages_that_matter_are_there() -> None:
    assert {page.stem for page in TUTORIALS} >= {"environment", "encoder", "executor", "layers", "plan"}
    assert {"README.md", "docs/cli.md"} <= shown().keys()
    every = {words[0] for found in shown().values() for words in found}
    assert every >= {"train", "evaluate", "show", "video", "export", "pretrain", "executor", "list", "doctor"}
