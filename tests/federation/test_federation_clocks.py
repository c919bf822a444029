"""Clocks that are a day apart: certificates are valid for both, over mutual TLS, and no deadline follows a clock.

The coordinator's clock decides what is in a certificate. So it is its clock that is put forward or back, when it signs.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from cryptography import x509

from fedveil.core.errors import FedveilError
from fedveil.runtimes import tls_certificates
from fedveil.runtimes.child_processes import ChildProcesses
from fedveil.runtimes.loopback import LoopbackKits, loopback_kits
from fedveil.runtimes.nvflare import FlareTransport, serve_site

SUPPORT = Path(__file__).parent.parent / "support"


def kits_of(folder: Path, days: int) -> LoopbackKits:
    """What a coordinator makes whose clock is so many days ahead."""

    class Elsewhen(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Elsewhen:
            return super().now(tz) + timedelta(days=days)  # type: ignore[return-value]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tls_certificates, "datetime", Elsewhen)
        return loopback_kits(folder, ("north",))


def test_certificates_are_valid_for_a_clock_that_is_a_day_behind_or_ahead(tmp_path: Path) -> None:
    kits = loopback_kits(tmp_path, ("north",))
    files = [path for kit in (kits.coordinator, kits.site("north")) for path in (kit / "startup").iterdir()]
    for path in (path for path in files if path.suffix in (".crt", ".pem")):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        assert certificate.not_valid_before_utc < datetime.now(UTC) - timedelta(days=1)
        assert certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=30)


@pytest.mark.slow
@pytest.mark.parametrize("days", [-1, 1])
def test_a_site_answers_a_coordinator_whose_clock_is_a_day_apart(tmp_path: Path, days: int) -> None:
    kits = kits_of(tmp_path, days)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])}
    with ChildProcesses(tmp_path) as sites, FlareTransport(kits.coordinator) as transport:
        sites.start("north", ["echo_site", str(kits.site("north"))], environment)
        assert dict(transport.ask({"north": b"hello"}, 120.0)) == {"north": b"echo hello"}


def test_with_a_clock_that_is_ten_days_ahead_nothing_begins(tmp_path: Path) -> None:
    kits = kits_of(tmp_path, 10)
    with pytest.raises(FedveilError, match=r"is valid from .* set the clock"):
        FlareTransport(kits.coordinator).close()
    with pytest.raises(FedveilError, match=r"is valid from .* set the clock"):
        serve_site(kits.site("north"), lambda question: question)


def test_a_certificate_that_ran_out_is_said_at_once(tmp_path: Path) -> None:
    kits = kits_of(tmp_path, -400)
    for begin in (lambda: FlareTransport(kits.coordinator).close(), lambda: serve_site(kits.site("north"), bytes)):
        with pytest.raises(FedveilError, match=r"ran out on .* the coordinator invites anew"):
            begin()


def test_nvflare_itself_looks_at_the_time_of_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: without our own look before, a certificate that is not valid yet begins nothing."""
    kits = kits_of(tmp_path, 10)
    monkeypatch.setattr("fedveil.runtimes.nvflare.kit_problem", lambda kit: None)
    with pytest.raises(FedveilError, match="not valid at validation time"):
        FlareTransport(kits.coordinator).close()
