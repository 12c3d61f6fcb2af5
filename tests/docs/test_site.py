"""The documentation as a site: it builds without a warning, fetches nothing, and knows every public name."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import xlvin

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
HAS_MKDOCS = all(map(importlib.util.find_spec, ("mkdocs", "material", "mkdocstrings")))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not HAS_MKDOCS:
        pytest.skip("left out: the documentation's site; `pip install 'xlvin[docs]'` brings what builds it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_there_and_in_the_navigation(site: Path) -> None:
    pages = [page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")]
    assert len(pages) > 10
    home = (site / "index.html").read_text()
    for page in pages:
        assert (site / page).is_file()
        assert f'href="{page.as_posix()}"' in home or page.name == "index.html", page


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?(https?:)?//", page.read_text()
        )
        assert not loaded, page


def test_links_to_the_source_lead_to_pages_of_it(site: Path) -> None:
    page = (site / "contributing.html").read_text()
    assert 'href="source/src/xlvin/cli.py.html"' in page
    assert "COMMANDS" in (site / "source/src/xlvin/cli.py.html").read_text()


def test_the_reference_has_every_public_name(site: Path) -> None:
    told = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    homes = {name: f"xlvin.{home}.{name}" for name, home in xlvin._HOMES.items()}
    assert 'id="xlvin.report.show_page.write_show_page"' in told  # every room has its page
    missing = [
        name
        for name, home in homes.items()
        if f'id="{home}"' not in told and f'id="xlvin.{name}"' not in told
    ]
    assert missing == []
