"""What README and docs promise: snippets run, commands and options exist, links lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import xlvin
from xlvin.cli import COMMANDS, main
from xlvin.report.pages import embed

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def command_lines() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        for line in "".join(blocks(page, "")).splitlines():
            if line.startswith("xlvin "):
                yield page.name, line.split("#")[0].split()[1:]


def test_python_snippets_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train = xlvin.train

    def train_a_little(*arguments: Any, **settings: Any) -> xlvin.Result:
        return train(*arguments, **{**settings, "trajectories": 2, "epochs": 2, "evaluation_episodes": 2})

    monkeypatch.setattr(xlvin, "train", train_a_little)
    monkeypatch.chdir(tmp_path)
    found = blocks(README, "python")
    assert len(found) >= 3
    names: dict[str, Any] = {}
    for number, snippet in enumerate(found):
        exec(compile(snippet, f"README snippet {number}", "exec"), names)
    assert names["result"].scores.shape == (5,)
    assert names["action"] in (0, 1)
    assert names["chi"].shape == (32, 50)
    assert names["chi"].requires_grad
    assert {path.name for path in tmp_path.iterdir()} == {"agent.safetensors", "plan.png"}
    capsys.readouterr()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        name, _, heading = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name} links to {target}"
        assert path.is_relative_to(ROOT)
        if heading:
            titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_map_covers_the_paper() -> None:
    rows = re.findall(
        r"^\| (.+?) \| (.+) \|$", README.read_text().partition("From the paper")[2], re.MULTILINE
    )
    told, files = " ".join(row[0] for row in rows), re.findall(r"\((src/[^)]+)\)", str(rows))
    for part in (
        "Equation 1,",
        "Equation 4",
        "Equation 7",
        "Algorithm 1",
        "Algorithm 2",
        "Table 1",
        "Figure 5",
    ):
        assert part in told
    assert all((ROOT / file).is_file() for file in files)
    rooms = {Path(file).parts[2] for file in files}
    assert rooms >= {"mdp", "executor", "latent", "planner", "agents", "training", "experiments"}


def test_the_results_have_their_place(tmp_path: Path) -> None:
    copy = tmp_path / "README.md"
    copy.write_text(README.read_text())
    embed(copy, "table1", "| fresh | results |")
    assert "| fresh | results |" in copy.read_text().partition("## Results")[2].partition("\n## ")[0]


def test_commands_and_their_options_exist(capsys: pytest.CaptureFixture[str]) -> None:
    helps: dict[str, str] = {}
    lines = list(command_lines())
    assert {words[0] for _, words in lines} >= {"train", "pretrain", "executor", "reproduce"}
    for page, (command, *words) in lines:
        assert command in COMMANDS, f"{page}: {command}"
        if command not in helps:
            with pytest.raises(SystemExit):
                main([command, "--help"])
            helps[command] = capsys.readouterr().out
        for option in (word for word in words if word.startswith("--")):
            assert re.search(rf"{re.escape(option)}\b", helps[command]), f"{page}: {command} {option}"


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    assert [name for name in COMMANDS if f"`xlvin {name}" not in page] == []


def test_make_has_the_targets_that_the_readme_names() -> None:
    named = re.findall(r"^make (\w+)", "".join(blocks(README, "")), re.MULTILINE)
    assert named == ["demo", "test"]
    rules = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}: " in rules for target in named)
