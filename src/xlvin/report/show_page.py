"""One HTML file to step through an episode: frame, tree, embeddings, executor and values of every moment.

Style, script and data are inside; the page asks no network for anything, and forbids itself to.
"""

from __future__ import annotations

from pathlib import Path

from xlvin.report.html import asset, data_block, write_page
from xlvin.report.show_data import Episode, Subject, episode_data

__all__ = ["Episode", "Subject", "write_show_page"]

# The parts of the page's script, in the order in which they stand in it.
SCRIPTS = ("tools", "tree", "plane", "executor", "moment", "main")


def write_show_page(path: Path | str, episode: Episode, subject: Subject) -> None:
    """Write the page of an episode to `path`, whole or not at all."""
    title = f"{subject.environment} · {subject.agent} · seed {subject.seed}"
    body = asset("show/page.html") + "\n" + data_block(episode_data(episode, subject))
    script = "\n".join(asset(f"show/{name}.js") for name in SCRIPTS)
    write_page(path, title, body, asset("show/style.css"), script)
