"""Fetching brings what is missing, from the first origin that has it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from data_site import Site

from fedveil.core.errors import FedveilError
from fedveil.data.download_progress import PlainLines
from fedveil.data.fetching import available, fetch
from fedveil.data.known_sets import SETS
from fedveil.data.origins import files_below


def test_fetch_brings_what_is_missing_and_only_that(toy: Path, site: Site) -> None:
    assert not available("toy")
    fetch("toy")
    assert available("toy")
    assert sorted(path.name for path in toy.iterdir()) == ["one.bin", "two.bin"]
    (toy / "two.bin").write_bytes(b"damaged")
    site.requests.clear()
    fetch("toy")
    assert [path for path, _ in site.requests] == ["/toy/two.bin"]
    fetch("toy")
    assert len(site.requests) == 1


def test_wrong_content_never_gets_the_final_name(toy: Path, site: Site) -> None:
    site.files["/toy/two.bin"] = b"something else"
    with pytest.raises(FedveilError, match=r"'toy' can't be fetched; tried 127.*two\.bin has the wrong SHA-256") as e:
        fetch("toy")
    assert "\n" not in str(e.value)
    assert [path.name for path in toy.iterdir()] == ["one.bin"]


def test_a_bad_beginning_from_an_earlier_run_is_replaced(toy: Path) -> None:
    toy.mkdir(parents=True)
    (toy / "one.bin.part").write_bytes(b"XXXX")
    fetch("toy")
    assert available("toy")


def test_the_next_origin_is_tried(toy: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    origins = (files_below(f"{site.address}/nothing"), *SETS["toy"].origins)
    monkeypatch.setitem(SETS, "toy", replace(SETS["toy"], origins=origins))
    said = io.StringIO()
    fetch("toy", PlainLines(said))
    assert "HTTP error 404" in said.getvalue()
    assert said.getvalue().endswith("toy: complete\n")


def test_an_unwritable_place_is_one_line(toy: Path) -> None:
    toy.parent.mkdir(parents=True)
    toy.write_text("a file where the folder should be")
    with pytest.raises(FedveilError, match="toy: File exists"):
        fetch("toy")


def test_files_that_a_list_names_are_missing_only_once_the_list_is_here(
    toy: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing, listed = SETS["toy"].files
    monkeypatch.setitem(SETS, "toy", replace(SETS["toy"], files=(listing,), more_files=lambda: [listed]))
    assert SETS["toy"].missing_files() == [listing]
    toy.mkdir(parents=True)
    (toy / "one.bin").write_bytes(site.files["/toy/one.bin"])
    assert SETS["toy"].missing_files() == [listed]
    fetch("toy")
    assert available("toy")
