"""One certificate for a federation: every site holds what is said of it to its own ledger, and signs or does not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from certificates import SIGNATORY, changed, signed_anew
from click.testing import CliRunner
from federation_scene import Scene, make_scene

from fedveil.accounting.compose import Term, certify, composition, describe
from fedveil.accounting.events import Step
from fedveil.certificate.bound_figures import risk_figures
from fedveil.certificate.canonical_json import file_form
from fedveil.certificate.typed_reading import as_plain
from fedveil.certificate.verify import CertificateRefused, countersign, verify_certificate
from fedveil.cli.certify import certify_command, countersign_command, verify_command
from fedveil.config.plan_facts import facts_of_plan
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import CaveatKind
from fedveil.core.signing import SigningKey
from fedveil.core.types import Unit, View
from fedveil.federation.certified_plan import check_plan, coordinator_at, keys_of_sites
from fedveil.federation.coordinating import run_federation
from fedveil.site.countersigning import countersign_at_site, site_objection
from fedveil.site.home import SiteHome
from fedveil.studies.certify import certify_run
from fedveil.studies.replayed_certificate import check_replayed

NAMES = ("north", "south", "west")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Three sites that have trained two rounds by a plan with a quorum of two."""
    cohort = {"kind": "fixed", "size": 3, "quorum": 2}
    made = make_scene(tmp_path_factory.mktemp("federation"), {"stop": {"rounds": 2}, "cohort": cohort})
    with made.serving() as transport:
        run_federation(made.coordinator, transport)
    return made


def certified(scene: Scene, path: Path, *, release: bool = False) -> Path:
    home = scene.coordinator
    written = certify_run(
        home.run.directory,
        home.key,
        signatory=SIGNATORY,
        out=path,
        sites=keys_of_sites(home),
        federation=facts_of_plan(home.plan),
        release=release,
    )
    assert written.waiting_for == tuple(f"site {name}" for name in NAMES)
    return path


@pytest.fixture
def path(scene: Scene, tmp_path: Path) -> Path:
    return certified(scene, tmp_path / "certificate.json")


@pytest.mark.parametrize("release", [False, True])
def test_sites_sign_one_after_another_and_then_it_holds(scene: Scene, tmp_path: Path, release: bool) -> None:
    path = certified(scene, tmp_path / "certificate.json", release=release)
    for done, name in enumerate(("west", "north", "south")):
        with pytest.raises(CertificateRefused, match=f"not yet signed by .*site {name}.*; signed by {SIGNATORY}"):
            verify_certificate(path)
        assert len(countersign_at_site(scene.sites[name], path).waiting_for) == 2 - done
    checked = verify_certificate(path, key=scene.coordinator.key.public, run=scene.coordinator.run.directory)
    assert "countersigned by 3 sites for their own bounds: north, south, west" in checked.line()
    check_plan(checked.certificate, scene.coordinator)
    check_replayed(checked, scene.coordinator.run.directory)


def test_a_sites_bounds_count_on_nobody_and_the_caveats_of_a_federation_are_typed(path: Path, scene: Scene) -> None:
    made = json.loads(path.read_bytes())["certificate"]
    assert made["federation"]["plan"] == scene.plan.hash
    assert made["federation"]["quorum"] == 2
    assert [each["kind"] for each in made["federation"]["caveats"]] == ["signed-statements", "quorum", "deadline"]
    assert {CaveatKind.STATEMENTS, CaveatKind.QUORUM, CaveatKind.DEADLINE} <= set(CaveatKind)
    for site in made["sites"]:
        server, released = (
            next(own for own in site["bounds"] if (own["unit"], own["view"]) == ("record", view))
            for view in ("server", "released")
        )
        assert server["bound"]["composition"] == released["bound"]["composition"]  # no draw, and no noise of others
        term = released["bound"]["composition"][0]
        assert (term["chance"], term["times"], term["steps"][0][1]) == (1.0, 1, 4)  # two rounds of two steps


def test_another_site_or_a_stranger_does_not_sign(path: Path, scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    stranger = make_scene(tmp_path / "other", sizes={"north": 60}).sites["north"]  # the name, and neither key nor plan
    with pytest.raises(CertificateRefused, match="nobody here has agreed to the plan"):
        countersign_at_site(stranger, path)
    with pytest.raises(FedveilError, match="is none of those that the certificate names"):
        countersign(path, SigningKey.generate())
    countersign_at_site(scene.sites["north"], path)
    with pytest.raises(FedveilError, match="has signed this certificate already"):
        countersign_at_site(scene.sites["north"], path)


def test_a_site_whose_key_was_exchanged_does_not_sign(path: Path, scene: Scene) -> None:
    thief = SigningKey.generate()
    at = ("certificate", "signatories", 1, "key")
    path.write_bytes(signed_anew(changed(json.loads(path.read_bytes()), at, lambda _: thief.public.hex), scene.key))
    with pytest.raises(CertificateRefused, match="another key for this site"):
        countersign_at_site(scene.sites["north"], path)
    countersign(path, thief)  # whoever has the key may sign, and the plan shows that it is another one
    for name in ("south", "west"):
        countersign_at_site(scene.sites[name], path)
    with pytest.raises(FedveilError, match="other keys for the sites than the plan"):
        check_plan(verify_certificate(path).certificate, scene.coordinator)


def smaller(table: Any) -> None:
    """Fewer steps than north has made, with every number right for them."""
    parts = composition(Term(((Step("poisson", 4.0, 10 / 60), 2),)))
    for own in table["certificate"]["sites"][0]["bounds"][:2]:
        own["bound"] |= {
            "composition": as_plain(parts),
            "described": describe(parts),
            "epsilon": certify(parts, 1e-3).epsilon,
            "risk": as_plain(risk_figures(parts)),
        }


def exchanged(table: Any) -> None:
    sites = table["certificate"]["sites"]
    sites[0]["bounds"], sites[2]["bounds"] = sites[2]["bounds"], sites[0]["bounds"]


def recounted(table: Any) -> None:
    table["certificate"]["sites"][0]["records"] = 59


def hurried(table: Any) -> None:
    table["certificate"]["federation"]["deadline"] = 1.0


def without_quorum(table: Any) -> None:
    table["certificate"]["federation"]["quorum"] = None


def shorter(table: Any) -> None:
    table["certificate"]["training"]["rounds_planned"] = 1


def another_plan(table: Any) -> None:
    table["certificate"]["federation"]["plan"] = "ab" * 32


def no_federation(table: Any) -> None:
    table["certificate"]["federation"] = None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (smaller, "its ledger gives"),
        (exchanged, "its ledger gives"),
        (recounted, "it counts 59 records here; there are 60"),
        (hurried, "are not those of the plan"),
        (without_quorum, "are not those of the plan"),
        (shorter, "another training is described"),
        (another_plan, "nobody here has agreed"),
        (no_federation, "not the certificate of a federation"),
    ],
)
def test_a_site_does_not_sign_for_what_its_ledger_does_not_give(
    path: Path, scene: Scene, change: Callable[[Any], None], said: str
) -> None:
    table = json.loads(path.read_bytes())
    change(table)
    path.write_bytes(signed_anew(table, scene.key))
    with pytest.raises(CertificateRefused, match=f"this site does not sign it: .*{said}"):
        countersign_at_site(scene.sites["north"], path)


def test_a_site_that_was_asked_more_than_the_coordinator_says_does_not_sign(path: Path, scene: Scene) -> None:
    """A coordinator can leave questions out of its own ledger, and not out of the site's."""
    copy = shutil.copytree(scene.sites["south"].directory, path.parent / "south")
    home = SiteHome(copy)
    settings = home.settings_file.read_text().replace(str(home.settings["data"]), str(scene.root / "south.csv"))
    home.settings_file.write_text(settings)
    home = SiteHome(copy)
    with home.opened_ledger() as ledger:
        paid = ledger.paid[0]
        ledger.charge(paid.plan, "another question", 0, paid.declared)
    with pytest.raises(CertificateRefused, match=r"record × server: .*its ledger gives"):
        countersign_at_site(home, path)


def left_out(table: Any) -> None:
    del table["certificate"]["federation"]["caveats"][1]


def no_bounds(table: Any) -> None:
    table["certificate"]["sites"][1]["bounds"] = []


def unsigned_site(table: Any) -> None:
    del table["certificate"]["signatories"][2]


def milder_than_a_site(table: Any) -> None:
    parts = composition(Term(((Step("poisson", 400.0, 1 / 6), 1),)))
    for cell in table["certificate"]["cells"]:
        if (cell["unit"], cell["view"]) == ("record", "server"):
            for basis in ("promised", "spent"):
                cell[basis] |= {
                    "composition": as_plain(parts),
                    "described": describe(parts),
                    "epsilon": certify(parts, 1e-3).epsilon,
                    "risk": as_plain(risk_figures(parts)),
                }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (left_out, "a federation has the caveats signed-statements, quorum, deadline"),
        (no_bounds, "every unit against the server and the released models once"),
        (unsigned_site, "every site signs; nobody does for south"),
    ],
)
def test_a_federation_without_what_it_must_say_is_refused(path: Path, change: Callable[[Any], None], said: str) -> None:
    table = json.loads(path.read_bytes())
    change(table)
    path.write_bytes(file_form(table))
    with pytest.raises(CertificateRefused, match=said):
        verify_certificate(path)


def test_the_worst_case_is_not_milder_than_a_site(path: Path, scene: Scene) -> None:
    table = json.loads(path.read_bytes())
    milder_than_a_site(table)
    path.write_bytes(signed_anew(table, scene.key))
    with pytest.raises(CertificateRefused, match="it says less than what site north has by itself"):
        countersign_at_site(scene.sites["north"], path)


def test_a_signature_of_a_site_is_not_moved_to_another_certificate(path: Path, scene: Scene, tmp_path: Path) -> None:
    public = certified(scene, tmp_path / "public.json", release=True)
    for name in NAMES:
        countersign_at_site(scene.sites[name], path)
    table, signed = json.loads(public.read_bytes()), json.loads(path.read_bytes())
    table["signatures"] += signed["signatures"][1:]
    public.write_bytes(file_form(table))
    with pytest.raises(CertificateRefused, match="the signature of site north is not one of this content"):
        verify_certificate(public)


@pytest.mark.slow
def test_a_site_that_was_never_asked_signs_for_nothing_spent(tmp_path: Path) -> None:
    """South is dead throughout: it is drawn and charged by the coordinator, and its own ledger is empty."""
    cohort = {"kind": "fixed", "size": 3, "quorum": 2}
    scene = make_scene(tmp_path, {"stop": {"rounds": 1}, "cohort": cohort}, deadline=2.0)
    with scene.serving() as transport:
        transport.answers.pop("south")
        run_federation(scene.coordinator, transport)
    path = certified(scene, tmp_path / "certificate.json")
    for name in NAMES:
        countersign_at_site(scene.sites[name], path)
    assert verify_certificate(path).sound


def test_a_coordinators_directory_is_known_by_its_plan(scene: Scene, tmp_path: Path) -> None:
    for place in (scene.coordinator.directory, scene.coordinator.run.directory):
        found = coordinator_at(place)
        assert found is not None
        assert found.plan.hash == scene.plan.hash
    assert coordinator_at(tmp_path) is None
    assert site_objection(scene.sites["north"], verify_one(scene, tmp_path)) is None


def verify_one(scene: Scene, tmp_path: Path) -> Any:
    path = certified(scene, tmp_path / "whole.json")
    for name in NAMES:
        countersign_at_site(scene.sites[name], path)
    certificate = verify_certificate(path).certificate
    assert {(own.unit, own.view) for site in certificate.sites for own in site.bounds} == {
        (unit, view) for unit in Unit for view in (View.SERVER, View.RELEASED)
    }
    return certificate


def test_the_commands_take_directories(scene: Scene, tmp_path: Path) -> None:
    out, home = str(tmp_path / "c.json"), str(scene.coordinator.directory)
    run = CliRunner()
    made = run.invoke(certify_command, [home, "--signatory", SIGNATORY, "--out", out], catch_exceptions=False)
    assert "waits for the signatures of site north, site south, site west" in made.output
    for name in NAMES:
        site = str(scene.sites[name].directory)
        done = run.invoke(countersign_command, [out, "--site", site], catch_exceptions=False)
        assert "signed: " in done.output
    assert "; complete" in done.output
    checked = run.invoke(verify_command, [out, "--run", home], catch_exceptions=False)
    assert checked.exit_code == 0
    assert "countersigned by 3 sites" in checked.output
    for wrong in ([out], [out, "--site", "x", "--key", "y"]):
        assert "either --key or --site" in run.invoke(countersign_command, wrong).output
    assert (
        "leave --site out"
        in run.invoke(
            certify_command, [home, "--signatory", "x", "--site", f"north={scene.coordinator.key_file}"]
        ).output
    )
