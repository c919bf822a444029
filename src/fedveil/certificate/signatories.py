"""Who signs a certificate for what. Every signatory that it names must sign, and nobody else can.

A signature is over a digest of the whole certificate and over the signatory's own entry. So a site's signature says:
this certificate, and in it the bounds of this site. Taking one away, adding one or exchanging two is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from fedveil.certificate.canonical_json import signed_form
from fedveil.certificate.document import Certificate, Signatory, SignatureEntry, SignedCertificate
from fedveil.certificate.typed_reading import as_plain
from fedveil.core.errors import FedveilError
from fedveil.core.signing import PublicKey, SigningKey

_PURPOSE = b"fedveil certificate, signature of version 1\n"
"""So that a signature made here means nothing anywhere else."""


def certificate_digest(certificate: Certificate) -> str:
    """By which a certificate is named, whoever has signed it so far."""
    return hashlib.sha256(signed_form(as_plain(certificate))).hexdigest()


def signed_message(certificate: Certificate, signatory: Signatory) -> bytes:
    entry = {"certificate": certificate_digest(certificate), "signatory": as_plain(signatory)}
    return _PURPOSE + signed_form(entry)


def sign_certificate(signed: SignedCertificate, key: SigningKey) -> SignedCertificate:
    """The same with the signature of the signatory whose key this is; signatures stand in the signatories' order."""
    certificate, mine = signed.certificate, key.public.hex
    signatory = next((each for each in certificate.signatories if each.key == mine), None)
    if signatory is None:
        named = ", ".join(f"{each.name} ({PublicKey.from_hex(each.key).short})" for each in certificate.signatories)
        raise FedveilError(f"this key ({key.public.short}) is none of those that the certificate names: {named}")
    if any(entry.key == mine for entry in signed.signatures):
        raise FedveilError(f"{signatory.name} has signed this certificate already")
    made = SignatureEntry(mine, key.sign(signed_message(certificate, signatory)).hex())
    order = [each.key for each in certificate.signatories]
    every = sorted((*signed.signatures, made), key=lambda entry: order.index(entry.key))
    return SignedCertificate(certificate, tuple(every))


def signature_problem(signed: SignedCertificate) -> str | None:
    """What is wrong with the signatures that are there; None where all of them are right, also if some are missing."""
    certificate = signed.certificate
    by_key = {each.key: (place, each) for place, each in enumerate(certificate.signatories)}
    places = []
    for entry in signed.signatures:
        if entry.key not in by_key:
            return "it carries a signature of somebody whom it does not name"
        place, signatory = by_key[entry.key]
        places.append(place)
        if not _confirmed(entry, signed_message(certificate, signatory)):
            return f"the signature of {signatory.name} is not one of this content"
    if places != sorted(set(places)):
        return "a signature stands twice, or not in its place"
    return None


def missing_signatories(signed: SignedCertificate) -> Sequence[Signatory]:
    there = {entry.key for entry in signed.signatures}
    return [each for each in signed.certificate.signatories if each.key not in there]


def _confirmed(entry: SignatureEntry, message: bytes) -> bool:
    digits = entry.signature
    if len(digits) != 128 or not set(digits) <= set("0123456789abcdef"):
        return False
    return PublicKey.from_hex(entry.key).confirms(bytes.fromhex(digits), message)
