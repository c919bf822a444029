"""The coordinator's side of connections: its authority signs what sites requested, and NVFlare reaches them.

Of the sites' requests nothing but the key is taken; keys of certificates never leave the machine where they were made.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from fedveil.core.atomic import PRIVATE_FOLDER, disk_errors, make_folder, whole_folder, write_whole
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.federation.coordinator_home import CoordinatorHome, read_table_of
from fedveil.runtimes.invitation import Invitation, read_invitation
from fedveil.runtimes.startup_kit import Credentials, write_coordinator_kit
from fedveil.runtimes.tls_certificates import (
    COORDINATOR,
    authority_certificate,
    make_authority,
    request_certificate,
    sign_coordinator,
    sign_site,
)
from fedveil.site.connection import REQUEST

LOOPBACK = ("localhost", "127.0.0.1")
PORT = 8002
"""At which a coordinator listens, if nothing is said."""
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


def invite(home: CoordinatorHome, registrations: Sequence[Path], host: str, port: int) -> list[Path]:
    """Sign the sites' requests and write an invitation for each; sites reach the coordinator at this address.

    Called again, it signs again, by the same authority: for an address that changed, certificates that run out, or a
    site with another key. Then a site without a registration keeps the certificate that it was invited with.
    """
    if not _HOST.fullmatch(host):
        raise ArgumentError("host", f"'{host}' is not a machine's name or IPv4 address")
    requests = _requests(home, registrations)
    authority, folder = home.directory / "authority", home.directory / "invitations"
    with disk_errors(home.directory):
        for path in (authority, folder):
            if not path.exists():
                make_folder(path, PRIVATE_FOLDER)
        if not (authority / "authority.crt").exists():
            make_authority(authority, home.plan.name)
        _make_kit(home, authority, host, port)
    root = authority_certificate(authority).decode()
    invitations = []
    for site in home.plan.sites:
        path = folder / f"{site.name}.json"
        if site.name in requests:
            certificate = sign_site(authority, requests[site.name], site.name).decode()
        else:
            certificate = read_invitation(path).certificate
        invitation = Invitation(
            site=site.name,
            federation=home.plan.name,
            host=host,
            port=port,
            certificate=certificate,
            authority=root,
            plan=home.plan.content.decode(),
        )
        write_whole(path, invitation.text)
        invitations.append(path)
    return invitations


def _requests(home: CoordinatorHome, registrations: Sequence[Path]) -> dict[str, bytes]:
    requests, keys = {}, {site.name: site.key for site in home.plan.sites}
    for path in registrations:
        table = read_table_of(path)
        request = table.get(REQUEST)
        if not isinstance(request, str):
            raise FedveilError(f"{path}: has no request for a certificate; the site makes one by: fedveil site init")
        name = str(table.get("name"))
        if table.get("key") != keys.get(name):
            what = "is not in this plan" if name not in keys else "signs with another key than in this plan"
            raise FedveilError(f"{path}: the site '{name}' {what}; it needs a new plan, that all sites agree to")
        requests[name] = request.encode()
    folder = home.directory / "invitations"
    lacking = [name for name in keys if name not in requests and not (folder / f"{name}.json").is_file()]
    if lacking:
        raise FedveilError(f"there is no registration of {', '.join(lacking)}")
    return requests


def invited_at(home: CoordinatorHome) -> tuple[str, int]:
    """Where the sites were told to reach the coordinator; where they are told if nothing is said."""
    path = home.directory / "invitations" / f"{home.plan.sites[0].name}.json"
    if not path.is_file():
        return LOOPBACK[0], PORT
    invitation = read_invitation(path)
    return invitation.host, invitation.port


def _make_kit(home: CoordinatorHome, authority: Path, host: str, port: int) -> None:
    key_file = home.directory / "connection.key"
    hosts = LOOPBACK if host in LOOPBACK else (host,)
    certificate = sign_coordinator(authority, request_certificate(key_file, COORDINATOR), hosts)
    shutil.rmtree(home.kit, ignore_errors=True)
    with whole_folder(home.kit):
        write_coordinator_kit(
            home.kit,
            Credentials(key_file, certificate, authority_certificate(authority)),
            federation=home.plan.name,
            host=host,
            port=port,
            sites=tuple(site.name for site in home.plan.sites),
        )
