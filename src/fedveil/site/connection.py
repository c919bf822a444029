"""A site's connection: a key that is made here and stays, a request that goes to the coordinator, and what comes back.

connection.key              of the site's certificates; secret
connections/HASH/           a kit for each plan that was agreed to: certificate, the coordinator's address, logs
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from fedveil.config.federation_plan import FederationPlan
from fedveil.core.atomic import PRIVATE_FOLDER, disk_errors, make_folder, write_whole
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.runtimes.certificates import check_certificate, check_site_name, request_certificate
from fedveil.runtimes.invitation import Invitation
from fedveil.runtimes.nvflare import require_nvflare, serve_site
from fedveil.runtimes.startup_kit import Credentials, write_site_kit
from fedveil.site.home import SiteHome
from fedveil.site.serving import SiteServer

REQUEST = "certificate_request"
"""The key of a registration that has what the coordinator is to sign."""


def add_request(home: SiteHome) -> None:
    """Put a request for a certificate into the registration, for a key that is made here if there is none."""
    with disk_errors(home.registration_file):
        registration = json.loads(home.registration_file.read_bytes())
    request = request_certificate(_key_file(home), check_site_name(home.name))
    write_whole(
        home.registration_file, (json.dumps(registration | {REQUEST: request.decode()}, indent=2) + "\n").encode()
    )


def check_invitation(home: SiteHome, invitation: Invitation) -> None:
    """Refuse an invitation that is another site's, or whose certificate is not for this site's key."""
    if invitation.site != home.name:
        raise FedveilError(f"the invitation is for '{invitation.site}', and this is '{home.name}'")
    check_certificate(
        invitation.certificate.encode(),
        authority=invitation.authority.encode(),
        key_file=_key_file(home),
        name=home.name,
    )


def connect_to(home: SiteHome, invitation: Invitation, plan: FederationPlan) -> Path:
    """Make the kit from which this plan is served, or make it anew with another certificate or address."""
    check_invitation(home, invitation)
    kit = _connections(home) / plan.hash
    with disk_errors(kit):
        if not kit.parent.exists():
            make_folder(kit.parent, PRIVATE_FOLDER)
        shutil.rmtree(kit, ignore_errors=True)
        credentials = Credentials(_key_file(home), invitation.certificate.encode(), invitation.authority.encode())
        write_site_kit(kit, credentials, federation=invitation.federation, host=invitation.host, port=invitation.port)
    return kit


def serve_home(home: SiteHome, plan: str | None = None, say: Callable[[str], None] = lambda line: None) -> None:
    """Answer the coordinator of a plan (the last one agreed to, if none is named) until interrupted."""
    require_nvflare()
    kit = _kit_of(home, plan)
    with SiteServer(home) as server:
        serve_site(kit, server.answer, say)


def _kit_of(home: SiteHome, plan: str | None) -> Path:
    folder = _connections(home)
    kits = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns) if folder.is_dir() else []
    kits = [kit for kit in kits if plan is None or kit.name.startswith(plan)]
    if not kits:
        which = "no plan" if plan is None else f"no plan {plan}"
        raise ArgumentError(
            "plan", f"{home.name} has agreed to {which} that it was invited to; see: fedveil site approve"
        )
    return kits[-1]


def _connections(home: SiteHome) -> Path:
    return home.directory / "connections"


def _key_file(home: SiteHome) -> Path:
    return home.directory / "connection.key"
