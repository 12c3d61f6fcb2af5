"""`xlvin show` from the outside: the file, the errors, and the page in a real browser."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

import xlvin
from xlvin.cli import main

from ..browser import PROGRAM, Browser, browser
from ..environments import CORRIDOR, MAP, PICTURE

SMALL = {"epochs": 1, "evaluation_episodes": 1, "hidden": 8, "latent": 6}
SEEN = pytest.mark.skipif(
    PROGRAM is None, reason="left out: the pages in a browser, as no Chromium is installed"
)

BELOW_EACH_OTHER = """
[...document.querySelectorAll("section")].map((each) => each.getBoundingClientRect())
  .filter(({height}) => height > 0).every(({top}, i, all) => i === 0 || top >= all[i - 1].bottom)
"""


def trained(folder: Path, environment: str, agent: str, **settings: int) -> Path:
    xlvin.train(environment, agent, trajectories=2, folder=folder, **(SMALL | settings))
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    trained(root / "corridor", CORRIDOR, "xlvin-r", seeds=2)
    trained(root / "deep", "CartPole-v1", "xlvin-cp", depth=4)
    trained(root / "ppo", "CartPole-v1", "ppo")
    trained(root / "atreec", "Acrobot-v1", "atreec", per_round=1)
    trained(root / "aligned", CORRIDOR, "xlvin-aligned")
    trained(root / "map", MAP, "xlvin-r")
    trained(root / "picture", PICTURE, "xlvin-untrained")
    return root


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def shown(capsys: pytest.CaptureFixture[str], run: Path, *options: str) -> Path:
    assert main(["show", str(run), *options]) == 0
    told = capsys.readouterr().out
    path = Path(told.splitlines()[-1].strip())
    assert path.is_file()
    return path


def test_the_page_is_one_small_file(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = shown(capsys, runs / "corridor", "--seed", "1", "--steps", "4", "--episode-seed", "11")
    assert page == runs / "corridor" / "show.html"
    text = page.read_text()
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)
    assert "@import" not in text
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    data = json.loads(found.group(1))
    assert (data["subject"]["seed"], data["subject"]["episode_seed"]) == (1, 11)
    assert 1 <= len(data["moments"]) <= 4
    assert main(["show", str(runs / "corridor"), "--episode-seed", "11", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["path"] == str(page)
    assert told["steps_off"] > 0.0
    assert (told["environment"], told["agent"], told["seed"], told["episode_seed"]) == (
        CORRIDOR,
        "xlvin-r",
        0,
        11,
    )
    assert told["steps"] >= 1
    other = tmp_path / "folder" / "page.html"
    assert shown(capsys, runs / "deep", "--output", str(other), "--steps", "200") == other
    assert other.stat().st_size < 5_000_000
    assert [path.name for path in other.parent.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--seed", "7"], "has no seed 7; its seeds are 0, 1"),
        (["--steps", "0"], "0 steps are none"),
        (["--episode-seed", "-1"], "give a number from 0"),
    ],
)
def test_bad_input_is_told_in_one_sentence(
    runs: Path, options: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["show", str(runs / "corridor"), "--output", str(page), *options]) == 2
    assert told in capsys.readouterr().err
    assert not page.exists()


def test_a_folder_without_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err


@SEEN
def test_a_reader_steps_through_the_episode(
    runs: Path, tab: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = shown(capsys, runs / "deep", "--steps", "6")
    tab.open(page)
    assert tab.text("#where") == "step 1 of 6"
    assert "CartPole-v1 · xlvin-cp, seed 0" in tab.text("#title")
    first = tab.ask("document.querySelector('#frame').src")
    tab.click("#on")
    tab.press("ArrowRight")
    assert tab.text("#where") == "step 3 of 6"
    assert tab.ask("location.hash") == "#3"
    assert tab.ask("document.querySelector('#frame').src") != first
    tab.click("#back")
    assert tab.text("#where") == "step 2 of 6"
    tab.press("End")
    assert tab.text("#where") == "step 6 of 6"
    tab.click("#first")
    tab.click("#slider", x=0.5)
    assert tab.text("#where") in ("step 3 of 6", "step 4 of 6")
    tab.click("#curve", x=0.99)
    assert tab.text("#where") == "step 6 of 6"
    tab.ask("document.querySelector('#speed').value = '15'")
    tab.click("#play")  # from the last step it starts over
    tab.wait("document.querySelector('#where').textContent === 'step 6 of 6'")
    tab.wait("document.querySelector('#play').textContent === 'Play'")
    picture = tmp_path / "page.png"
    tab.screenshot(picture)
    assert len(Image.open(picture).convert("RGB").getcolors(1 << 20) or []) > 100
    assert tab.complaints == []
    assert tab.requests == []


@SEEN
def test_a_reader_explores_the_tree(runs: Path, tab: Browser, capsys: pytest.CaptureFixture[str]) -> None:
    tab.open(shown(capsys, runs / "deep", "--steps", "3"))
    everything = tab.ask("moments[0].tree.size")
    assert everything == 31
    assert tab.text("#count") == f"{tab.ask('shown(moments[0].tree)')} of 31"
    tab.click("#nodes", x=0.01)
    fewest = tab.ask("document.querySelectorAll('#tree .node').length")
    assert fewest < everything
    tab.click("#nodes", x=0.99)
    assert tab.ask("document.querySelectorAll('#tree .node').length") == everything
    assert tab.ask("document.querySelectorAll('#tree .edge').length") == everything - 1
    assert tab.ask("document.querySelectorAll('#tree .edge.likely').length") == 4
    assert tab.text("#selected").startswith("Selected: the state now")
    assert tab.ask("document.querySelectorAll('#strips canvas').length") == 3
    tab.click("#tree .node[data-node='1'] circle")
    assert tab.text("#selected").startswith("Selected: push left, value")
    leaf = tab.ask("moments[0].tree.children.indexOf(0)")
    tab.click(f"#tree .node[data-node='{leaf}'] circle")
    assert "A leaf of the tree" in tab.text("#strips")
    tab.hover("#tree .node[data-node='2'] circle")
    assert tab.text("#tip").startswith("push right\nvalue ")
    assert "changed by the executor" in tab.text("#tip")
    before = tab.ask("document.querySelector('#tree').getAttribute('viewBox')")
    tab.click("#closer")
    assert tab.ask("document.querySelector('#tree').getAttribute('viewBox')") != before
    tab.click("#whole")
    assert tab.ask("document.querySelector('#tree').getAttribute('viewBox')") == before
    theme = tab.ask("document.documentElement.dataset.theme")
    tab.click("#theme")
    assert tab.ask("document.documentElement.dataset.theme") != theme
    assert tab.complaints == []


@SEEN
@pytest.mark.parametrize(
    ("run", "told"),
    [
        ("ppo", "A ppo agent has no tree"),
        ("atreec", "there is no executor"),
        ("aligned", "what it finds is decoded"),
        ("map", "Lines are actions"),
        ("picture", "Lines are actions"),
        ("corridor", "observation 0"),
    ],
)
def test_every_kind_of_agent_has_a_page(
    runs: Path, tab: Browser, run: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tab.open(shown(capsys, runs / run, "--steps", "3"))
    tab.press("ArrowRight")
    assert told in tab.ask("document.body.innerText")
    assert tab.ask("document.querySelectorAll('#tree .node').length > 0") == (run != "ppo")
    assert tab.ask("document.querySelectorAll('#overlay line').length > 0") == (run == "map")
    assert tab.ask("document.querySelector('#stage').hidden") == (run in ("corridor", "aligned"))
    tab.resize(480, 900)
    assert tab.ask("document.documentElement.scrollWidth") <= 480
    assert tab.ask(BELOW_EACH_OTHER)
    tab.resize(1280, 1000)
    assert tab.complaints == []
    assert tab.requests == []
