"""What the site adds to the pages: navigation, a reference of every module, and links out of docs/.

Where the repository is browsed, a link such as ../src/xlvin/cli.py opens the file. The site has a page for
each source file that is linked, so that the same link works there; links to other files keep their words.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "xlvin"
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
# Folders whose pages appear by themselves, and the order in which readers want the known ones.
FIRST = {
    "experiments": ["table1", "table2", "atari", "bottleneck", "executor", "planning-bed", "depth-width"],
    "tutorials": ["environment", "layers", "encoder", "executor", "plan"],
}
# Rooms in the order in which the paper tells its story.
ROOMS = (
    "agents",
    "acting",
    "planner",
    "executor",
    "latent",
    "mdp",
    "envs",
    "training",
    "experiments",
    "report",
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lay out the navigation."""
    docs = Path(config.docs_dir)
    config.nav = [
        {"Home": "index.md"},
        *_existing(
            docs,
            {
                "Concepts": "concepts.md",
                "Command line": "cli.md",
                "Sweeps": "sweeps.md",
                "Results": "results.md",
                "Speed": "speed.md",
            },
        ),
        *({title: _pages(docs, folder)} for title, folder in _folders(docs, "tutorials", "experiments")),
        {
            "How it works inside": _existing(
                docs,
                {"Architecture": "architecture.md", "Where the paper leaves a choice": "deviations.md"},
            )
        },
        {"API": ["api/index.md", *_reference()]},
        *_existing(docs, {"Contributing": "contributing.md"}),
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference, and a page for every source file that a page links to."""
    for uri, text in _reference().items():
        files.append(File.generated(config, uri, content=text))
    for page in Path(config.docs_dir).rglob("*.md"):
        for _, target, _ in LINK.findall(page.read_text()):
            path = (page.parent / target).resolve()
            if path.suffix == ".py" and path.is_relative_to(ROOT / "src") and path.is_file():
                uri = _source_page(path)
                if uri not in files.src_uris:
                    text = f"# {path.relative_to(ROOT)}\n\n```python\n{path.read_text()}```\n"
                    files.append(File.generated(config, uri, content=text, inclusion=_hidden()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links out of the documentation into links to the site's own pages, or into their words."""
    folder = Path(config.docs_dir) / Path(page.file.src_uri).parent
    if page.file.generated_by is not None:
        return markdown

    def turn(found: re.Match[str]) -> str:
        words, target, _ = found.groups()
        path = (folder / target).resolve()
        if path.is_relative_to(config.docs_dir):
            return found.group(0)
        uri = "index.md" if path == ROOT / "README.md" else _source_page(path)
        if files.get_file_from_path(uri) is None:
            return str(words)
        up = "../" * (len(Path(page.file.src_uri).parts) - 1)
        return f"[{words}]({up}{uri})"

    return LINK.sub(turn, markdown)


def _source_page(path: Path) -> str:
    return f"source/{path.relative_to(ROOT).as_posix()}.md" if path.is_relative_to(ROOT) else ""


def _reference() -> dict[str, str]:
    """A page for each room, and for each module beside the rooms."""
    rooms = {room: sorted((SOURCE / room).rglob("[!_]*.py")) for room in ROOMS}
    beside = {path.stem: [path] for path in sorted(SOURCE.glob("[!_]*.py")) if path.stem != "cli"}
    return {f"api/{name}.md": _module_page(name, paths) for name, paths in (rooms | beside).items()}


def _module_page(name: str, paths: list[Path]) -> str:
    modules = [".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in paths]
    room = SOURCE / name / "__init__.py"
    told = ast.get_docstring(ast.parse(room.read_text())) or "" if room.is_file() else ""
    return "\n\n".join([f"# xlvin.{name}", told, *(f"::: {module}" for module in modules)]) + "\n"


def _hidden() -> Any:
    """Pages that are linked and not listed."""
    from mkdocs.structure.files import InclusionLevel

    return InclusionLevel.NOT_IN_NAV


def _existing(docs: Path, pages: dict[str, str]) -> list[dict[str, str]]:
    return [{title: page} for title, page in pages.items() if (docs / page).is_file()]


def _folders(docs: Path, *names: str) -> list[tuple[str, str]]:
    titles = {"tutorials": "Tutorials", "experiments": "Experiments"}
    return [(titles[name], name) for name in names if any((docs / name).glob("*.md"))]


def _pages(docs: Path, folder: str) -> list[str]:
    known = FIRST[folder]
    found = sorted(
        (docs / folder).glob("*.md"),
        key=lambda page: (known.index(page.stem) if page.stem in known else len(known), page.stem),
    )
    return [f"{folder}/{page.name}" for page in found]
