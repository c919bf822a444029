"""The tables in docs/methods say what the accountant and the resolved specs say.

Tables of ε have lines "| `preset` | unit × view, view | claimed | verified |"; tables of settings stand below a line
"Settings of `preset`" and have lines "| `dotted.key` | value | meaning |".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fedveil.accounting.calibrate import calibrate
from fedveil.accounting.claims import claims
from fedveil.accounting.context import Budget, Context
from fedveil.accounting.plan import plan
from fedveil.config.spec import resolve
from fedveil.core.parameters import Layout
from fedveil.core.rounding import rounded_up
from fedveil.core.types import Population, Unit, View
from fedveil.models.registry import MODELS, build
from fedveil.zoo import ZOO

PAGES = sorted((Path(__file__).parent.parent / "docs" / "methods").glob("*.md"))
EPSILON_LINE = re.compile(r"^\| `([a-z-]+)` \| (record|client) × ([a-z_, ]+) \| (\S+) \| (\S+) \|$", re.MULTILINE)
SETTINGS = re.compile(r"^Settings of `([a-z-]+)`.*?\n\n((?:\|.*\n)+)", re.MULTILINE)
SETTING_LINE = re.compile(r"^\| `([a-z_0-9.]+)` \| (.+?) \|", re.MULTILINE)

OVERVIEW_LINE = re.compile(r"^\| \[([a-z-]+)\]\(([a-z-]+\.md)\) \| .+ \| (\S+) \| (\S+) \| (\S+)[^|]*\|$", re.MULTILINE)

Cells = dict[tuple[str, str], tuple[str, str]]


@cache
def accounted(name: str, *true_keys: str) -> Cells:
    """(claimed, verified) of every cell of a preset on its own MNIST population, as the documents print them."""
    spec = resolve(name, dict.fromkeys(true_keys, True))
    method, privacy = spec.method, spec.privacy
    layers = Layout.of(build(spec.model.name, (1, 28, 28), 10, spec.model.options, seed=1)).group_count
    assert spec.data.records is not None
    population = Population((spec.data.records,) * spec.data.clients)
    context = Context(method, population, layers, privacy.delta)
    if privacy.calibrate:
        assert privacy.epsilon is not None
        target = Budget(privacy.epsilon, privacy.delta, privacy.unit, privacy.view)
        method = calibrate(context, target).method
        context = replace(context, method=method)
    table = plan(context)
    claimed = {(claim.unit, claim.view): f"{claim.epsilon:.4g}" for claim in claims(context)}
    found = {}
    for cell in table.guarantees:
        verified = rounded_up(cell.epsilon) if cell.finite else "∞"
        found[str(cell.unit), str(cell.view)] = (claimed.get((cell.unit, cell.view), "–"), verified)
    return found


@cache
def documented() -> dict[str, Cells]:
    found: dict[str, Cells] = {}
    for page in PAGES:
        for name, unit, views, claimed, verified in EPSILON_LINE.findall(page.read_text()):
            for view in views.split(", "):
                mine = found.setdefault(name, {})
                assert (unit, view) not in mine, f"{page.name}: {name} {unit} × {view} is there twice"
                mine[unit, view] = (claimed, verified)
    return found


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def settings() -> list[tuple[str, str, str]]:
    found = []
    for page in PAGES:
        for name, table in SETTINGS.findall(page.read_text()):
            found += [(name, key, value) for key, value in SETTING_LINE.findall(table)]
    return found


def test_every_preset_has_all_cells_of_its_table_documented() -> None:
    cells = {(str(unit), str(view)) for unit in Unit for view in View}
    assert sorted(documented()) == sorted(ZOO)
    for name, mine in documented().items():
        assert mine.keys() == cells, name


@pytest.mark.parametrize("name", ZOO)
def test_documented_epsilons_are_those_of_the_accountant(name: str) -> None:
    assert documented()[name] == accounted(name)


@pytest.mark.parametrize("name", ["fed-cdp", "fed-cdp-decay"])
def test_noise_on_each_row_is_worth_what_the_page_of_fed_cdp_says(name: str) -> None:
    drawn_once, on_rows = accounted(name), accounted(name, "example.each_row")
    rows = ("record", "on_device")
    page = (PAGES[0].parent / "fed-cdp.md").read_text()
    assert f"ε = {on_rows[rows][1]} for `record × on_device`, all other cells as below" in page
    assert {cell: told for cell, told in on_rows.items() if cell != rows} | {rows: drawn_once[rows]} == drawn_once


def test_the_overview_has_every_preset_with_its_page_and_epsilons() -> None:
    lines = OVERVIEW_LINE.findall((PAGES[0].parent / "index.md").read_text())
    assert sorted(line[0] for line in lines) == sorted(ZOO)
    for name, page, *told in lines:
        assert f"| `{name}` |" in (PAGES[0].parent / page).read_text()
        cells = [("record", "server"), ("client", "server"), ("client", "released")]
        assert told == [accounted(name)[cell][1] for cell in cells], name


@pytest.mark.parametrize("name", sorted({name for name, _, _ in settings()}))
def test_documented_settings_are_those_of_the_preset(name: str) -> None:
    told = {key: value for preset, key, value in settings() if preset == name}
    real = dict(flat(resolve(name).to_dict()))
    assert told
    for key, value in told.items():
        assert key in real, f"{name} has no {key}"
        assert value == str(real[key]), key


def test_every_preset_of_a_method_page_has_its_settings_documented() -> None:
    heads = {name for name, _, _ in settings()}
    for page in PAGES:
        presets = {line[0] for line in EPSILON_LINE.findall(page.read_text())}
        assert not presets or presets & heads, page.name


def test_every_network_is_documented() -> None:
    text = (Path(__file__).parent.parent / "docs/data.md").read_text()
    assert [name for name in MODELS if f"`{name}`" not in text] == []


def test_links_of_the_documents_lead_somewhere() -> None:
    root = Path(__file__).parent.parent
    for page in [root / "README.md", *(root / "docs").glob("**/*.md")]:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"
