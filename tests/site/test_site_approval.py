"""Which plans a site agrees to, and what it is told before it does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from federation_scene import SETTINGS, Scene, make_scene, policy, write_table

from fedveil.accounting.plan import plan as promised
from fedveil.config.federation_plan import FederationPlan, RegisteredSite, read_plan
from fedveil.core.errors import FedveilError
from fedveil.core.signing import SigningKey
from fedveil.core.types import Unit, View
from fedveil.site.approval import approve, examine, read_plan_file
from fedveil.site.connection import add_request
from fedveil.site.home import SiteHome, make_site
from fedveil.site.refusals import RefusalKind, Refused

ONE = {"north": 60}
SERVER_NOISE: dict[str, Any] = {
    "method": "fed-sdp",
    "example": "none",
    "server": {"sigma": 4.0, "clip": {"bound": 1.0, "by": "flat"}, "unit": "client"},
}
EACH_ROW = {**SETTINGS["example"], "noise": "row", "each_row": True}


def refusal_of(scene: Scene, plan: FederationPlan | None = None, name: str = "north") -> tuple[RefusalKind, str]:
    with pytest.raises(Refused) as error:
        approve(scene.sites[name], plan or scene.plan)
    with scene.sites[name].opened_ledger() as ledger:
        assert ledger.approved == {}
    return error.value.kind, error.value.text


def test_a_plan_is_agreed_to_by_its_hash(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE)
    home = scene.sites["north"]
    assert read_plan_file(home.plan_file(scene.plan.hash)).hash == scene.plan.hash
    with home.opened_ledger() as ledger:
        assert ledger.approved == {scene.plan.hash: "study"}


def test_what_the_plan_costs_here_counts_on_nobody_else(tmp_path: Path) -> None:
    """The coordinator's own table takes two of three sites by chance; a site can't see that, and pays every round."""
    scene = make_scene(tmp_path, {"cohort": {"kind": "poisson", "rate": 0.5}}, agreed=False)
    examined = examine(scene.sites["north"], scene.plan)
    mine = examined.table.of(Unit.RECORD, View.RELEASED).epsilon
    theirs = promised(scene.plan.context).client(0, Unit.RECORD, View.RELEASED).epsilon
    assert mine > 1.2 * theirs
    assert examined.price == pytest.approx(examined.table.of(Unit.RECORD, View.SERVER).epsilon)
    assert (examined.spent, examined.after) == (0.0, pytest.approx(examined.price))


def test_others_noise_does_not_lower_the_price(tmp_path: Path) -> None:
    settings = {
        "method": "fed-sdp-client", "example": "none", "batch": {"kind": "all"}, "local": {"steps": 1, "rate": 0.5},
        "upload": {"sigma": 4.0, "clip": {"bound": 1.0, "by": "flat"}, "unit": "client"},
    }  # fmt: skip
    sizes = {f"site-{number}": 20 for number in range(12)}
    scene = make_scene(tmp_path, settings, sizes=sizes, allowed=policy(unit=Unit.CLIENT), agreed=False)
    examined = examine(scene.sites["site-0"], scene.plan)
    released, server = (examined.table.of(Unit.CLIENT, view).epsilon for view in (View.RELEASED, View.SERVER))
    assert released == server
    assert promised(scene.plan.context).of(Unit.CLIENT, View.RELEASED).epsilon < released


def test_a_seeded_plan_is_refused(tmp_path: Path) -> None:
    assert refusal_of(make_scene(tmp_path, {"seed": 3}, sizes=ONE, agreed=False))[0] is RefusalKind.SEEDED


def test_a_plan_without_noise_is_refused(tmp_path: Path) -> None:
    settings = {"method": "fedavg", "example": "none"}
    assert refusal_of(make_scene(tmp_path, settings, sizes=ONE, agreed=False))[0] is RefusalKind.UNPROTECTED


def test_noise_at_the_server_gives_the_server_nothing(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, SERVER_NOISE, sizes=ONE, allowed=policy(unit=Unit.CLIENT), agreed=False)
    kind, text = refusal_of(scene)
    assert kind is RefusalKind.UNPROTECTED
    assert "added at the server" in text


def test_whoever_asks_only_for_protection_from_what_is_published_may_trust_the_server(tmp_path: Path) -> None:
    allowed = policy(unit=Unit.CLIENT, view=View.RELEASED)
    scene = make_scene(tmp_path, SERVER_NOISE, sizes=ONE, allowed=allowed, agreed=False)
    assert examine(scene.sites["north"], scene.plan).price < 20


def test_on_the_device_only_rows_that_carry_their_own_noise_count(tmp_path: Path) -> None:
    allowed = policy(view=View.ON_DEVICE)
    (tmp_path / "clean").mkdir()
    clean = make_scene(tmp_path / "clean", sizes=ONE, allowed=allowed, agreed=False)
    assert refusal_of(clean)[0] is RefusalKind.UNPROTECTED
    (tmp_path / "noised").mkdir()
    settings = {"example": EACH_ROW, "batch": {"kind": "partition", "size": 10}}
    noised = make_scene(tmp_path / "noised", settings, sizes=ONE, allowed=allowed, agreed=False)
    assert examine(noised.sites["north"], noised.plan).price < 20


def test_a_plan_that_costs_too_much_is_refused_with_both_numbers(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE, allowed=policy(epsilon=0.2), agreed=False)
    kind, text = refusal_of(scene)
    assert kind is RefusalKind.OVER_BUDGET
    assert "0.266" in text
    assert "0.2 at" in text


def test_another_count_of_records_is_refused(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE, agreed=False)
    (site,) = scene.plan.sites
    other = replace(scene.plan, sites=(RegisteredSite(site.name, 59, site.key),))
    kind, text = refusal_of(scene, other)
    assert kind is RefusalKind.WRONG_RECORDS
    assert "59" in text
    assert "60" in text


def test_another_schema_is_refused(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE, agreed=False)
    wider = scene.plan.schema_text.replace("100.0", "120.0")
    assert wider != scene.plan.schema_text
    assert refusal_of(scene, replace(scene.plan, schema_text=wider))[0] is RefusalKind.WRONG_RECORDS


def test_another_name_or_key_is_refused(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE, agreed=False)
    (site,) = scene.plan.sites
    for name, key in (("south", site.key), ("north", "ab" * 32)):
        other = replace(scene.plan, sites=(RegisteredSite(name, 60, key),))
        assert refusal_of(scene, other)[0] is RefusalKind.WRONG_SITE


def test_a_rehearsal_lets_in_what_protects_nothing(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, {"seed": 3}, sizes=ONE, allowed=policy(rehearsal=True))
    with scene.sites["north"].opened_ledger() as ledger:
        assert ledger.approved


# A site's directory


def test_records_that_changed_are_noticed(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE)
    write_table(tmp_path / "north.csv", 60, seed=5)
    with pytest.raises(FedveilError, match="records changed"):
        SiteHome(scene.sites["north"].directory).opened_ledger()


def test_secrets_are_their_owners_alone_and_the_registration_has_none(tmp_path: Path) -> None:
    home = make_scene(tmp_path, sizes=ONE).sites["north"]
    for name in ("sign.key", "mark.key", "ledger.sqlite", "ledger.head", "site.toml"):
        assert (home.directory / name).stat().st_mode & 0o077 == 0, name
    text = home.registration_file.read_text()
    assert home.signing_key.pem().decode().splitlines()[1] not in text
    assert home.public_key in text


def test_a_schema_with_ranges_read_off_records_makes_no_site(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE)
    text = (tmp_path / "schema.toml").read_text().replace("high = 100", 'high = 100\nsource = "data"')
    (tmp_path / "private.toml").write_text(text)
    with pytest.raises(FedveilError, match="age"):
        make_site(
            tmp_path / "other",
            name="other",
            data=tmp_path / "north.csv",
            schema=tmp_path / "private.toml",
            policy=scene.sites["north"].policy,
        )
    assert not (tmp_path / "other").exists()


def test_a_site_whose_making_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE, agreed=False)

    def make(name: str, last: Callable[[SiteHome], None]) -> None:
        make_site(
            tmp_path / "other",
            name=name,
            data=tmp_path / "north.csv",
            schema=tmp_path / "schema.toml",
            policy=scene.sites["north"].policy,
            last=last,
        )

    def interrupted(home: SiteHome) -> None:
        assert home.registration_file.exists()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make("other", interrupted)
    with pytest.raises(FedveilError, match="is not one of coordinator, localhost, server"):
        make("server", add_request)
    assert not (tmp_path / "other").exists()
    make("other", add_request)  # nothing of before is in its way


def test_names_that_a_path_or_a_certificate_can_not_carry_make_no_site(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE, agreed=False)
    for name in ("", "../x", "North", "nörth", "a" * 300, "-a", "a.b", "a b", "a\n", "a/b", "a\0"):
        with pytest.raises(FedveilError, match="small letters, digits and dashes"):
            make_site(
                tmp_path / "other",
                name=name,
                data=tmp_path / "north.csv",
                schema=tmp_path / "schema.toml",
                policy=scene.sites["north"].policy,
            )
    assert not (tmp_path / "other").exists()


def test_a_plan_that_would_keep_a_site_busy_or_eat_its_memory_is_one_line(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE, agreed=False)
    with pytest.raises(FedveilError, match=r"stop\.rounds: a plan has at most"):
        scene.another_plan({"stop": {"rounds": 10**8}}, agreed=False)
    table = json.loads(scene.plan.content)
    table["spec"]["model"]["options"] = {"hidden": [2**24, 2**24]}
    plan = read_plan(json.dumps(table, sort_keys=True, separators=(",", ":")).encode())
    with pytest.raises(FedveilError, match="mlp could not be built"):
        examine(scene.sites["north"], plan)


def test_a_plan_by_another_coordinator_has_another_hash(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, sizes=ONE)
    key = SigningKey.generate().public.hex
    assert replace(scene.plan, coordinator=key).hash != scene.plan.hash
