"""The documentation builds into a site, without a warning and without anything that is loaded from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedveil

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # the theme advertises its successor
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


def test_every_document_has_its_page(site: Path) -> None:
    for path in (ROOT / "docs").glob("**/*.md"):
        assert (site / path.relative_to(ROOT / "docs").with_suffix(".html")).is_file(), path


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.glob("**/*.html"):
        loaded = re.findall(r"<(?:script|img|link|iframe)[^>]*?(?:src|href)=\"([^\"]+)\"", page.read_text())
        assert loaded
        assert not [address for address in loaded if re.match(r"(https?:)?//", address)], page


def test_every_public_name_is_described(site: Path) -> None:
    page = (site / "api.html").read_text()
    for name in fedveil.__all__:
        assert f'id="fedveil.{name}"' in page, name
    assert 'id="fedveil.Result.accuracy"' in page


def test_a_papers_page_has_its_tables_collapsed(site: Path) -> None:
    results = ROOT / "docs" / "results"
    listed = []
    for source in results.glob("*.md"):
        links = re.findall(r"^- \[[^\]]+\]\(((?:paper|small)/[\w.-]+\.md)\)$", source.read_text(), re.MULTILINE)
        page = (site / "results" / source.name).with_suffix(".html").read_text()
        assert page.count('<details class="abstract">') == len(links), source
        for picture in re.findall(r'<img[^>]*src="([^"]+)"', page):
            assert (site / "results" / picture).is_file(), picture
        listed += links
    written = {
        str(path.relative_to(results)) for folder in ("paper", "small") for path in results.glob(f"{folder}/*.md")
    }
    assert sorted(listed) == sorted(written)


def test_every_page_says_first_who_it_is_for() -> None:
    documents = ROOT / "docs"
    folders = (documents, documents / "methods", documents / "tutorials")
    for path in [path for folder in folders for path in folder.glob("*.md")]:
        paragraph = path.read_text().split("\n\n")[1]
        assert re.match(r"\*?For \w+", paragraph), path.name
