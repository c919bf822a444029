"""A certificate as an entry of the differential privacy deployments registry (github.com/opendp), tier 3.

The registry wants one ε; the entry has that of the verdict's cell, and all others in words. What no certificate can
know (what the model is for, where) is marked as to be filled in.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fedveil.certificate.document import Certificate
from fedveil.certificate.stated_bounds import CertifiedCell
from fedveil.certificate.stated_facts import RandomnessSource
from fedveil.certificate.statements import cell_risk
from fedveil.core.atomic import write_whole
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.guarantee import CaveatKind, Relation
from fedveil.core.rounding import rounded_up
from fedveil.core.types import Unit, View
from fedveil.report.model.verdict_sentence import WHO_SAW

TO_FILL_IN = "TO FILL IN"

REGISTERED_UNITS = {
    Unit.RECORD: "Record-level (one example of one client)",
    Unit.CLIENT: "Client-level (all that one client holds)",
}
ADJACENT = {
    Relation.ADD_OR_REMOVE: "two sets of records that differ by one such unit being there or not",
    Relation.REPLACE_ONE: "two sets of records that differ by one such unit being exchanged for any other",
    Relation.ZERO_OUT: "two trainings that differ by one such unit sending zero and its noise",
}


def write_registry_entry(certificate: Certificate, path: Path) -> None:
    """Write the entry as YAML. The registry takes files with plain names only."""
    if not re.fullmatch(r"[a-z0-9_]+\.yaml", path.name):
        raise ArgumentError("registry", f"{path.name}: the registry wants lowercase letters, digits, _ and .yaml")
    write_whole(path, yaml_text(registry_entry(certificate, path.stem)).encode())


def registry_entry(certificate: Certificate, slug: str) -> dict[str, Any]:
    """The entry as plain values, in the order and with the keys of the registry's schema."""
    if not certificate.for_release:  # it would tell what was spent, and so how often clients were drawn
        raise ArgumentError("registry", "the registry is public, so it takes a certificate that is made for release")
    if any(notice.kind.voids for notice in certificate.attention):
        raise ArgumentError("registry", f"there is nothing to register: {certificate.attention[0].text}")
    cell = _chosen(certificate)
    bound = cell.copies or cell.certified  # a person has one record, however often it was copied
    training, first = certificate.training, certificate.signatories[0]
    return {
        "url_slug": slug,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": f"{training.method} on {training.data}",
                "data_curators": [first.name],
                "intended_use": f"{TO_FILL_IN}: what the model is for",
                "data_product_type": "Machine learning model",
                "data_product_region": f"{TO_FILL_IN}: whose data, and whose law",
                "description": " ".join((f"{training.model}, trained by federated learning.", *_state(certificate))),
                "publication_date": certificate.created[:10],
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": " ".join(training.described[:2]),
                "unprotected_quantities": _list(certificate.not_covered),
            },
            "privacy_loss": {
                "privacy_unit": REGISTERED_UNITS[cell.unit],
                "privacy_unit_details": f"Adjacent are {ADJACENT[bound.relation]} ({bound.relation}).",
                "privacy_parameters": {"epsilon": float(rounded_up(bound.epsilon)), "delta": cell.delta},
                "privacy_parameters_details": _all_cells(certificate),
            },
            "deployment_model": {
                "model_name": "Federated",
                "model_name_details": " ".join(training.described[2:]),
                "actors": _list((*certificate.trust, *(f"{WHO_SAW[view]}: an adversary." for view in View))),
                "release_type": "One release",
                "release_type_details": f"{training.rounds_published} rounds; every round's model counts as published.",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
                "access_type_details": "The model is published; nobody queries the records.",
            },
            "accounting": {
                "post_processing": "Averaging, the server's optimiser and compression come after the noise.",
                "composition": f"{bound.described}; {bound.accountant}, rounded against the curator.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _preprocessing(certificate),
                "mechanisms": _mechanisms(certificate),
                "justification": " ".join(certificate.justification.split()),
            },
            "administrative": {
                "sources": f"{TO_FILL_IN}: where the model and this certificate are. After: {training.paper}.",
                "notes": certificate.verdict,
                "registry_authors": [first.name],
            },
        },
    }


def _chosen(certificate: Certificate) -> CertifiedCell:
    """The cell of the verdict."""
    for unit in Unit:
        for view in (View.SERVER, View.PEER, View.RELEASED):
            cell = next(each for each in certificate.cells if (each.unit, each.view) == (unit, view))
            if cell_risk(cell).useful:
                return cell
    raise FedveilError("registry: no useful ε is promised against server, peers or the public")


def _state(certificate: Certificate) -> tuple[str, ...]:
    return tuple(f"{notice.text[:1].upper()}{notice.text[1:]}." for notice in certificate.attention)


def _list(sentences: tuple[str, ...]) -> str:
    return "\n".join(f"- {' '.join(sentence.split())}" for sentence in sentences)


def _all_cells(certificate: Certificate) -> str:
    lines = []
    for cell in certificate.cells:
        bound = cell.certified
        value = f"ε = {rounded_up(bound.epsilon)}, {bound.relation}" if not bound.reason else f"no ε: {bound.reason}"
        lines.append(f"{cell.name}: {value}")
    return _list(tuple(lines))


def _preprocessing(certificate: Certificate) -> str:
    caveats = {remark.kind: remark.text for cell in certificate.cells for remark in cell.caveats}
    known = [text for kind, text in caveats.items() if kind.uncovered]
    known = known or ["features are made with public constants alone, as declared"]
    return _list((*known, caveats.get(CaveatKind.TUNING, "other trainings on the same records are not counted")))


def _mechanisms(certificate: Certificate) -> str:
    system = certificate.randomness.source is RandomnessSource.SYSTEM
    source = "keyed from the operating system's secure source" if system else "from a fixed seed"
    versions = ", ".join(f"{name} {number}" for name, number in certificate.software.certified_with)
    return _list((certificate.randomness.noise, f"random numbers: AES-256 in counter mode, {source}", versions))


def yaml_text(table: dict[str, Any], depth: int = 0) -> str:
    """Tables, lists of texts, texts and numbers as YAML; a text is quoted as in JSON, or is a block of its lines."""
    lines = []
    for key, value in table.items():
        if isinstance(value, dict):
            lines += [f"{'  ' * depth}{key}:", yaml_text(value, depth + 1).rstrip("\n")]
        elif isinstance(value, list):
            lines += [f"{'  ' * depth}{key}:", *(f"{'  ' * (depth + 1)}- {_quoted(entry)}" for entry in value)]
        elif isinstance(value, str) and "\n" in value:
            block = [f"{'  ' * (depth + 1)}{line}" for line in value.split("\n")]
            lines += [f"{'  ' * depth}{key}: |-", *block]
        else:
            lines.append(f"{'  ' * depth}{key}: {_quoted(value)}")
    return "\n".join(lines) + "\n"


def _quoted(value: str | int | float) -> str:
    if isinstance(value, float):
        mantissa, _, power = repr(value).partition("e")  # YAML takes an exponent for a number only with a point
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{power}" if power else mantissa
    return json.dumps(value, ensure_ascii=False)
