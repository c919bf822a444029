"""What a certificate says of a run: as executed, with what must be known first, and nothing that gives people away."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from certificates import SIGNATORY, small_run

from fedveil.certificate.document import Certificate, NoticeKind, SignedCertificate
from fedveil.certificate.run_digests import digest_problem, digests_of_run
from fedveil.certificate.signatories import sign_certificate
from fedveil.certificate.stated_bounds import Basis
from fedveil.certificate.stated_facts import RandomnessSource
from fedveil.certificate.statements import certificate_verdict
from fedveil.certificate.verify import CertificateRefused, verify_certificate, write_certificate
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.signing import SigningKey
from fedveil.core.types import Unit, View
from fedveil.ledger.store import Ledger
from fedveil.runs.account import account
from fedveil.runs.run import run
from fedveil.studies.audit import audit
from fedveil.studies.certify import certify_run
from fedveil.studies.replayed_certificate import check_replayed

KEY = SigningKey.generate()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("finished") / "run")


def made(directory: Path, **options: object) -> Certificate:
    written = certify_run(directory, KEY, signatory=SIGNATORY, **options)  # type: ignore[arg-type]
    checked = verify_certificate(written.path, key=KEY.public, run=directory)
    check_replayed(checked, directory)
    assert checked.certificate == written.signed.certificate
    return written.signed.certificate


def kinds(certificate: Certificate) -> list[NoticeKind]:
    return [notice.kind for notice in certificate.attention]


def test_every_cell_is_the_accounts(finished: Path) -> None:
    certificate, accounted = made(finished), account(finished)
    assert accounted.spent is not None
    for cell in certificate.cells:
        promised, spent = (table.of(cell.unit, cell.view) for table in (accounted.promised, accounted.spent))
        assert cell.basis is Basis.SPENT
        assert cell.spent is not None
        assert (cell.promised.epsilon, cell.spent.epsilon) == (promised.epsilon, spent.epsilon)
        assert cell.certified.reason == spent.reason
        assert [remark.text for remark in cell.caveats] == [caveat.text for caveat in spent.caveats]
    claimed = {cell.name for cell in certificate.cells if cell.claimed is not None}
    assert claimed == {claim.name for claim in accounted.claims}
    assert kinds(certificate) == []
    assert certificate.randomness.source is RandomnessSource.SYSTEM
    assert certificate.training.clients == 4


def test_sites_stand_by_name_with_their_own_numbers(finished: Path) -> None:
    certificate, accounted = made(finished), account(finished)
    assert [site.name for site in certificate.sites] == list(accounted.context.population.names)
    own = accounted.spent.per_client(Unit.RECORD, View.SERVER) if accounted.spent else ()
    stated = [
        next(each.bound.epsilon for each in site.bounds if (each.unit, each.view) == (Unit.RECORD, View.SERVER))
        for site in certificate.sites
    ]
    assert stated == list(own)


def test_for_release_nothing_tells_what_was_spent(finished: Path) -> None:
    certificate = made(finished, release=True)
    assert all(cell.spent is None and cell.basis is Basis.PROMISED for cell in certificate.cells)
    assert certificate.evidence.attacks == ()
    assert certificate.for_release


def test_a_seeded_run_says_so_first_and_in_the_verdict_and_is_not_released(tmp_path: Path) -> None:
    directory = small_run(tmp_path / "run", seed=3)
    certificate = made(directory)
    assert kinds(certificate) == [NoticeKind.SEEDED]
    assert certificate.verdict.startswith("Not private: seeded")
    assert certificate.randomness.source is RandomnessSource.SEED
    assert not verify_certificate(directory / "certificate.json").sound
    with pytest.raises(ArgumentError, match="seed"):
        certify_run(directory, KEY, signatory=SIGNATORY, release=True)


def test_an_unfinished_run_says_so_first_and_in_the_verdict_and_is_not_released(tmp_path: Path) -> None:
    directory = small_run(tmp_path / "run")
    (directory / "result.json").unlink()
    certificate = made(directory)
    assert kinds(certificate) == [NoticeKind.UNFINISHED]
    assert certificate.verdict.startswith("Unfinished: whoever sees")
    with pytest.raises(ArgumentError, match="rounds are published"):
        certify_run(directory, KEY, signatory=SIGNATORY, release=True)


def test_a_diverged_run_says_so_first_and_in_the_verdict_and_is_not_released(tmp_path: Path) -> None:
    directory = small_run(tmp_path / "run", **{"local.rate": 1e6})
    certificate = made(directory)
    assert kinds(certificate) == [NoticeKind.DIVERGED]
    assert certificate.verdict.startswith("Diverged: whoever sees")
    with pytest.raises(ArgumentError, match="diverged"):
        certify_run(directory, KEY, signatory=SIGNATORY, release=True)


def test_a_seed_that_is_kept_quiet_is_refused_beside_the_run(tmp_path: Path) -> None:
    directory = small_run(tmp_path / "run", seed=3)
    silent = replace(made(directory), attention=())
    silent = replace(silent, verdict=certificate_verdict(silent.cells, ()), signatories=silent.signatories[:1])
    write_certificate(directory / "certificate.json", sign_certificate(SignedCertificate(silent, ()), KEY))
    checked = verify_certificate(directory / "certificate.json", run=directory)
    with pytest.raises(CertificateRefused, match="the run is seeded"):
        check_replayed(checked, directory)


def test_a_run_without_noise_promises_nothing(tmp_path: Path) -> None:
    settings = {"data.name": "heart", "data.partition": "sites", "local.steps": 1}
    run("fedavg", settings, rounds=1, out=tmp_path / "run", workers=1)
    certificate = made(tmp_path / "run")
    assert kinds(certificate) == [NoticeKind.NOTHING_PROMISED]
    assert certificate.verdict.startswith("Nothing useful is promised")
    assert not verify_certificate(tmp_path / "run" / "certificate.json").sound


def test_copies_of_a_record_count_together_in_the_verdict(tmp_path: Path) -> None:
    settings = {"data.name": "cancer", "data.clients": 4, "cohort.size": 2, "local.steps": 2, "data.partition": "copy"}
    run("fed-cdp", settings, rounds=1, out=tmp_path / "run", workers=1)
    certificate = made(tmp_path / "run")
    cell = next(cell for cell in certificate.cells if cell.name == "record × server")
    assert cell.copies is not None
    assert cell.copies.risk is not None
    assert cell.copies.epsilon > cell.certified.epsilon
    assert f"{100 * cell.copies.risk.right_guess:.1f}"[:3] in certificate.verdict


def test_an_audit_stands_in_the_evidence_with_what_it_could_notice(finished: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(finished, tmp_path / "run"))
    audit(directory, canaries=4, rounds=1)
    (shown,) = made(directory).evidence.audits
    assert shown.canaries == 4
    assert shown.noticed_noise is not None
    assert shown.said


def test_what_holds_no_ledger_is_not_certified(finished: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(finished, tmp_path / "run"))
    (directory / "ledger.sqlite").unlink()
    with pytest.raises(FedveilError, match="nothing can be certified"):
        certify_run(directory, KEY, signatory=SIGNATORY)
    with pytest.raises(FedveilError, match="not a run directory"):
        certify_run(tmp_path, KEY, signatory=SIGNATORY)


def test_a_run_that_goes_on_is_no_longer_the_certified_one(tmp_path: Path) -> None:
    """What further rounds cost is not in the certificate."""
    directory = small_run(tmp_path / "run")
    before = digests_of_run(directory)
    with Ledger(directory / "ledger.sqlite") as ledger:
        again = ledger.rounds()[-1]
        ledger.charge(again.round, again.cohort, again.charges)
    assert digest_problem(before, directory) == "the run has gone on since it was certified"


def test_the_digest_of_receipts_tells_nobody_who_took_part(tmp_path: Path) -> None:
    """Two runs with the same receipts, word for word, have different digests: the ledger's own randomness is in."""
    one, two = (small_run(tmp_path / name, rounds=1, seed=1) for name in "ab")
    digests = [
        json.loads((d / "certificate.json").read_text())["certificate"]["digests"] for d in (one, two) if made(d)
    ]
    assert digests[0]["spec"] == digests[1]["spec"]
    assert digests[0]["receipts"] != digests[1]["receipts"]


@pytest.mark.parametrize("options", [{"days": 0}, {"days": 10**6}, {"sites": {"nowhere": KEY.public}}])
def test_wrong_arguments_are_named(finished: Path, options: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        certify_run(finished, KEY, signatory=SIGNATORY, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 300])
def test_a_signatory_has_a_name_of_one_line(finished: Path, name: str) -> None:
    with pytest.raises(FedveilError, match="a name of one line"):
        certify_run(finished, KEY, signatory=name)
