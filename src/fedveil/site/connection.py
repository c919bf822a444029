"""A site's connection: a key that is made here and stays, a request that goes to the coordinator, and what comes back.

The key is `connection.key`. `kit/` is made of an invitation: certificate, the coordinator's address, NVFlare's logs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from fedveil.core.atomic import disk_errors, whole_folder, write_whole
from fedveil.core.errors import FedveilError
from fedveil.core.signing import SigningKey
from fedveil.runtimes.invitation import Invitation
from fedveil.runtimes.startup_kit import Credentials, write_site_kit
from fedveil.runtimes.tls_certificates import check_certificate, check_site_name, request_certificate
from fedveil.site.home import SiteHome, write_registration

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


def renew(home: SiteHome, *, signature: bool) -> SiteHome:
    """New keys in the place of the old ones, and a registration that says so. The ledger stays.

    The connection's key is always made anew; with `signature` also the key that answers are signed with. That one
    stands in every plan, so no plan of before is answered any more: all must agree to a new one. A site that is serving
    holds the ledger, and must be ended first.
    """
    with home.opened_ledger():
        with disk_errors(home.directory):
            _key_file(home).unlink(missing_ok=True)
        if signature:
            write_whole(home.directory / "sign.key", SigningKey.generate().pem(), private=True)
        renewed = SiteHome(home.directory)  # which has read no key yet
        write_registration(renewed)
        add_request(renewed)
    return renewed


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


def connect(home: SiteHome, invitation: Invitation) -> None:
    """Make the kit from which the site serves, or make it anew: for another plan, certificate or address."""
    check_invitation(home, invitation)
    credentials = Credentials(_key_file(home), invitation.certificate.encode(), invitation.authority.encode())
    shutil.rmtree(home.kit, ignore_errors=True)
    with disk_errors(home.kit), whole_folder(home.kit):
        write_site_kit(
            home.kit, credentials, federation=invitation.federation, host=invitation.host, port=invitation.port
        )


def connected_to(home: SiteHome) -> str | None:
    """Where the coordinator is that this site serves, as `HOST:PORT`; None where there is none yet."""
    path = home.kit / "startup" / "fed_client.json"
    try:
        return str(json.loads(path.read_bytes())["servers"][0]["service"]["target"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def kit_of(home: SiteHome) -> Path:
    """What the site serves from; an error where it has not agreed to an invitation yet."""
    if not home.kit.is_dir():
        first = "first: fedveil site approve INVITATION.json"
        raise FedveilError(f"{home.directory}: '{home.name}' is not connected to anybody yet; {first}")
    return home.kit


def _key_file(home: SiteHome) -> Path:
    return home.directory / "connection.key"
