"""Grids can be let go at any time: the same questions have the same answers."""

from __future__ import annotations

from functools import _lru_cache_wrapper
from types import ModuleType

import pytest

from fedveil.accounting import allocation, compose, kept_grids, pld
from fedveil.accounting.compose import Term, certify, composition
from fedveil.accounting.events import Step


def test_what_is_certified_is_the_same_after_the_grids_are_gone() -> None:
    parts = composition(Term(((Step("poisson", 1.3, 0.05), 40),)))
    before = certify(parts, 1e-5).epsilon
    assert compose.composed_pld.cache_info().currsize > 0
    kept_grids.forget_grids()
    assert compose.composed_pld.cache_info().currsize == 0
    certify.cache_clear()
    assert certify(parts, 1e-5).epsilon == before


@pytest.mark.parametrize("module", [allocation, pld])
def test_every_grid_that_is_kept_can_be_let_go(module: ModuleType) -> None:
    """A control for the list: whatever keeps distributions is in it."""
    keeping = {value for value in vars(module).values() if isinstance(value, _lru_cache_wrapper)}
    assert keeping <= set(kept_grids._KEPT)
