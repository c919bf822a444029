"""What a certificate says of a federation: by which plan, and which sites sign for it."""

from __future__ import annotations

from pathlib import Path

from fedveil.certificate.document import Certificate
from fedveil.config.plan_facts import facts_of_plan
from fedveil.core.errors import FedveilError
from fedveil.core.signing import PublicKey
from fedveil.federation.coordinator_home import CoordinatorHome


def coordinator_at(path: Path) -> CoordinatorHome | None:
    """The coordinator's directory that a path is, or whose run it is; None for any other."""
    for directory in (path, path.parent if path.name == "run" else path):
        if (directory / "plan.json").is_file():
            return CoordinatorHome(directory)
    return None


def keys_of_sites(home: CoordinatorHome) -> dict[str, PublicKey]:
    """By which every site of the plan signs."""
    return {site.name: PublicKey.from_hex(site.key) for site in home.plan.sites}


def check_plan(certificate: Certificate, home: CoordinatorHome) -> None:
    """Refuse a certificate that is not one of this coordinator's plan, or has other keys for its sites."""
    if certificate.federation != facts_of_plan(home.plan):
        raise FedveilError(f"{home.directory}: the certificate is not one of this federation's plan")
    keys = {each.site: each.key for each in certificate.signatories if each.site is not None}
    if keys != {name: key.hex for name, key in keys_of_sites(home).items()}:
        raise FedveilError(f"{home.directory}: the certificate has other keys for the sites than the plan")
