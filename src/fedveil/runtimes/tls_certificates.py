"""The federation's own certificates: a key is made where it is used, and only a request for a certificate travels.

The coordinator holds the authority, which signs what it invited. A certificate says one thing: this key is that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedveil.core.atomic import disk_errors, write_whole
from fedveil.core.errors import FedveilError

COORDINATOR = "coordinator"
"""The name in the coordinator's certificate. Sites look for it, so no site can have it."""

RESERVED_NAMES = frozenset({COORDINATOR, "server", "localhost"})
KEY_BITS = 3072  # NVFlare signs with RSA alone
CLOCKS_APART = timedelta(days=7)
"""A new certificate is valid for a site whose clock is behind. That it was valid before it was made helps nobody."""

_SITE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_AUTHORITY_KEY, _AUTHORITY_CERTIFICATE = "authority.key", "authority.crt"


def check_site_name(name: str) -> str:
    """The name, if a certificate can carry it: small letters, digits and dashes, and not a name with a meaning."""
    if not _SITE_NAME.fullmatch(name) or name in RESERVED_NAMES:
        raise FedveilError(
            f"site {name!r}: a site's name has small letters, digits and dashes, and is not one of "
            f"{', '.join(sorted(RESERVED_NAMES))}"
        )
    return name


def make_authority(folder: Path, federation: str, days: int = 3650) -> None:
    """The federation's own authority: a key that never leaves the coordinator, and the certificate everybody gets."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, federation[:64])])
    builder = (
        _certificate(name, name, key.public_key(), key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    write_whole(folder / _AUTHORITY_KEY, _private_bytes(key), private=True)
    write_whole(folder / _AUTHORITY_CERTIFICATE, _pem(builder.sign(key, hashes.SHA256())))


def authority_certificate(folder: Path) -> bytes:
    """What every site gets with its invitation."""
    return (folder / _AUTHORITY_CERTIFICATE).read_bytes()


def request_certificate(key_file: Path, name: str) -> bytes:
    """A request for a certificate of this name. The key is made here and stays; a second request is of the same key."""
    if key_file.exists():
        key = _read_key(key_file)
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
        write_whole(key_file, _private_bytes(key), private=True)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM)


def sign_site(authority: Path, request: bytes, name: str, days: int = 365) -> bytes:
    """The certificate of a site that was invited by this name. Nothing but the key is taken from the request.

    It is no server's certificate and names no host, so no site can pretend to others to be the coordinator.
    """
    return _sign(authority, request, check_site_name(name), days, [ExtendedKeyUsageOID.CLIENT_AUTH], ())


def sign_coordinator(authority: Path, request: bytes, hosts: Iterable[str], days: int = 365) -> bytes:
    """The coordinator's certificate, for the host names and addresses by which sites reach it."""
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return _sign(authority, request, COORDINATOR, days, usages, tuple(hosts))


def check_certificate(certificate: bytes, *, authority: bytes, key_file: Path, name: str) -> None:
    """Refuse a certificate of another key, another name or another authority, before anything is done with it."""
    signed, root = _read(certificate), _read(authority)
    if _common_name(signed.subject) != name:
        raise FedveilError(f"the certificate is for {_common_name(signed.subject)!r}, not for {name!r}")
    if signed.public_key() != _read_key(key_file).public_key():
        raise FedveilError(f"the certificate is of another key than {key_file}")
    try:
        signed.verify_directly_issued_by(root)
    except (InvalidSignature, TypeError, ValueError) as error:
        raise FedveilError("the certificate was not signed by this federation's authority") from error


def validity_problem(certificate: bytes) -> str | None:
    """Why a certificate can't be used at this time by this machine's clock; None where it can."""
    read, now = _read(certificate), datetime.now(UTC)
    if now > read.not_valid_after_utc:
        return f"its certificate ran out on {read.not_valid_after_utc:%Y-%m-%d}; the coordinator invites anew"
    if now < read.not_valid_before_utc:
        begins = f"{read.not_valid_before_utc:%Y-%m-%d}"
        return f"its certificate is valid from {begins}, and the clock here says {now:%Y-%m-%d}; set the clock"
    return None


def certificate_name(certificate: bytes) -> str:
    """Whose certificate it is."""
    return _common_name(_read(certificate).subject)


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of a certificate, to be compared by telephone."""
    return _read(certificate).fingerprint(hashes.SHA256()).hex()


def _sign(
    authority: Path,
    request: bytes,
    name: str,
    days: int,
    usages: list[x509.ObjectIdentifier],
    hosts: tuple[str, ...],
) -> bytes:
    try:
        asked = x509.load_pem_x509_csr(request)
        sound = asked.is_signature_valid
    except ValueError as error:
        raise FedveilError(f"the request of {name!r} can't be read: {error}") from error
    if not sound:
        raise FedveilError(f"the request of {name!r} is not signed by the key it names")
    if _common_name(asked.subject) != name:
        raise FedveilError(f"the request is for {_common_name(asked.subject)!r}, not for {name!r}")
    public = asked.public_key()
    if not isinstance(public, rsa.RSAPublicKey) or public.key_size < 2048:
        raise FedveilError(f"the request of {name!r} needs an RSA key of 2048 bits or more")
    key, root = _read_key(authority / _AUTHORITY_KEY), _read(authority_certificate(authority))
    builder = (
        _certificate(asked.subject, root.subject, public, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    return _pem(builder.sign(key, hashes.SHA256()))


def _certificate(
    subject: x509.Name, issuer: x509.Name, public: rsa.RSAPublicKey, signer: rsa.RSAPublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_APART)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _read(certificate: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(certificate)
    except ValueError as error:
        raise FedveilError(f"a certificate can't be read: {error}") from error


def _read_key(path: Path) -> rsa.RSAPrivateKey:
    # This house wrote the file. Proving that its numbers are primes takes longer than all else.
    with disk_errors(path):
        text = path.read_bytes()
    try:
        key = serialization.load_pem_private_key(text, password=None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError) as error:
        raise FedveilError(f"{path}: the key can't be read") from error
    if not isinstance(key, rsa.RSAPrivateKey):
        raise FedveilError(f"{path}: not an RSA key")
    return key


def _common_name(name: x509.Name) -> str:
    values = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(values[0].value) if values else ""


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_bytes(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
