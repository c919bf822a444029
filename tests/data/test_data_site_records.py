"""Whose records are whose, and what is refused."""

from __future__ import annotations

import pytest

from fedveil.core.errors import FedveilError
from fedveil.data.site_records import SiteRecords, check_sites, sites_in_order


def test_sites_in_order_hold_every_record_once() -> None:
    sites = sites_in_order(("north", "south"), (3, 2), (0, 4))
    assert sites == (SiteRecords("north", range(3), range(0)), SiteRecords("south", range(3, 5), range(4)))
    check_sites(sites, 5, 4)


@pytest.mark.parametrize(
    ("names", "sizes", "message"),
    [
        (("north", "north"), (3, 2), "there are 2 called 'north'"),
        (("A", "a"), (3, 2), "'A' and 'a' are too much alike"),
        (("north", "so/uth"), (3, 2), "must be a plain name"),
        (("north", ""), (3, 2), "must be a plain name"),
        (("north", "south"), (5, 0), "site 'south': holds no records to train on"),
        (("north", "south"), (3, 3), "are not the 5 training records"),
    ],
)
def test_sites_that_are_none_are_refused(names: tuple[str, ...], sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(FedveilError, match=message):
        check_sites(sites_in_order(names, sizes, (1, 1)), 5, 2)


def test_sites_that_share_records_or_leave_some_out_are_refused() -> None:
    for second in (range(2, 5), range(4, 5)):
        with pytest.raises(FedveilError, match="one site after another"):
            check_sites((SiteRecords("north", range(3)), SiteRecords("south", second)), 5, 0)


def test_validation_records_that_do_not_exist_are_refused() -> None:
    with pytest.raises(FedveilError, match="not among the 2"):
        check_sites((SiteRecords("north", range(5), range(3)),), 5, 2)
