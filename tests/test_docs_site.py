"""The documentation builds into a site, without a warning and without anything that is loaded from elsewhere."""

from __future__ import annotations

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
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


def test_every_document_has_its_page(site: Path) -> None:
    for path in (ROOT / "docs").glob("**/*.md"):
        relative = path.relative_to(ROOT / "docs").with_suffix("")
        page = relative.parent if relative.name == "index" else relative
        assert (site / page / "index.html").is_file(), path


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.glob("**/*.html"):
        loaded = re.findall(r"<(?:script|img|link|iframe)[^>]*?(?:src|href)=\"([^\"]+)\"", page.read_text())
        assert loaded
        assert not [address for address in loaded if re.match(r"(https?:)?//", address)], page


def test_every_public_name_is_described(site: Path) -> None:
    page = (site / "api" / "index.html").read_text()
    for name in fedveil.__all__:
        assert re.search(rf'id="fedveil\.[a-z_.]*\.?{name}"', page), name
