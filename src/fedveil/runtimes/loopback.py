"""A federation's certificates and kits with every party on this machine: for demonstrations, tests and measurements.

Only what travels in a real one is handed over here too: requests and certificates, never keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedveil.core.atomic import PRIVATE_FOLDER, make_folder
from fedveil.runtimes.certificates import (
    COORDINATOR,
    authority_certificate,
    make_authority,
    request_certificate,
    sign_coordinator,
    sign_site,
)
from fedveil.runtimes.child_processes import free_port
from fedveil.runtimes.startup_kit import Credentials, write_coordinator_kit, write_site_kit

_HOSTS = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class LoopbackKits:
    """Where the parties' directories are, each with its key; the authority is the coordinator's."""

    folder: Path
    federation: str
    port: int
    sites: tuple[str, ...]

    @property
    def authority(self) -> Path:
        return self.folder / "authority"

    @property
    def coordinator(self) -> Path:
        return self.folder / COORDINATOR

    def site(self, name: str) -> Path:
        return self.folder / name

    def add_site(self, name: str) -> None:
        """A kit with a certificate of this authority. Only those that the coordinator lists are let in."""
        key_file = self.folder / f"{name}.key"
        certificate = sign_site(self.authority, request_certificate(key_file, name), name)
        credentials = Credentials(key_file, certificate, authority_certificate(self.authority))
        write_site_kit(self.site(name), credentials, federation=self.federation, host=_HOSTS[0], port=self.port)


def loopback_kits(folder: Path, sites: tuple[str, ...], federation: str = "loopback") -> LoopbackKits:
    """An authority, a coordinator that listens to this machine alone, and its sites."""
    kits = LoopbackKits(folder, federation, free_port(), sites)
    make_folder(kits.authority, PRIVATE_FOLDER)
    make_authority(kits.authority, federation)
    key_file = folder / f"{COORDINATOR}.key"
    certificate = sign_coordinator(kits.authority, request_certificate(key_file, COORDINATOR), _HOSTS)
    credentials = Credentials(key_file, certificate, authority_certificate(kits.authority))
    write_coordinator_kit(
        kits.coordinator, credentials, federation=federation, host=_HOSTS[0], port=kits.port, sites=sites
    )
    for site in sites:
        kits.add_site(site)
    return kits
