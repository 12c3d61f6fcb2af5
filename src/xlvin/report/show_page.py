"""One HTML file to step through an episode: frame, tree, embeddings, executor and values of every moment.

Style, script and data are inside; the page asks no network for anything, and forbids itself to.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from xlvin.report.html import asset, data_block, write_page
from xlvin.report.show_data import Episode, Subject, episode_data

__all__ = ["Episode", "Subject", "write_show_page"]

# The parts of the page's script, in the order in which they stand in it.
SCRIPTS = ("tools", "tree", "plane", "executor", "moment", "main")


def write_show_page(path: Path | str, episode: Episode, subject: Subject) -> float | None:
    """Write the page of an episode to `path`, whole or not at all.

    Returns by how many real steps imagined successors missed the real ones, the median; None without a tree.
    """
    title = f"{subject.environment} · {subject.agent} · seed {subject.seed}"
    data = episode_data(episode, subject)
    body = asset("show/page.html") + "\n" + data_block(data)
    script = "\n".join(asset(f"show/{name}.js") for name in SCRIPTS)
    write_page(path, title, body, asset("show/style.css"), script)
    missed = [moment["missed"] for moment in data["moments"] if moment["missed"] is not None]
    return median(missed) if missed else None
