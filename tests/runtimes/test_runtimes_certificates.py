from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedveil.core.errors import FedveilError
from fedveil.runtimes.certificates import (
    COORDINATOR,
    authority_certificate,
    check_certificate,
    check_site_name,
    make_authority,
    request_certificate,
    sign_coordinator,
    sign_site,
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority")
    make_authority(folder, "hearts")
    return folder


def usages(certificate: bytes) -> set[x509.ObjectIdentifier]:
    return set(
        x509.load_pem_x509_certificate(certificate).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    )


def test_a_site_gets_a_certificate_for_the_key_it_keeps(authority: Path, tmp_path: Path) -> None:
    key_file = tmp_path / "north.key"
    request = request_certificate(key_file, "north")
    certificate = sign_site(authority, request, "north")
    check_certificate(certificate, authority=authority_certificate(authority), key_file=key_file, name="north")
    assert b"PRIVATE" not in request + certificate
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert (authority / "authority.key").stat().st_mode & 0o777 == 0o600
    assert request_certificate(key_file, "north") != b"", "asked again, it is the same key"
    check_certificate(certificate, authority=authority_certificate(authority), key_file=key_file, name="north")


def test_a_site_can_not_pass_for_the_coordinator(authority: Path, tmp_path: Path) -> None:
    certificate = sign_site(authority, request_certificate(tmp_path / "north.key", "north"), "north")
    assert usages(certificate) == {ExtendedKeyUsageOID.CLIENT_AUTH}
    with pytest.raises(x509.ExtensionNotFound):
        x509.load_pem_x509_certificate(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    request = request_certificate(tmp_path / "c.key", COORDINATOR)
    with pytest.raises(FedveilError, match="is not one of"):
        sign_site(authority, request, COORDINATOR)
    assert ExtendedKeyUsageOID.SERVER_AUTH in usages(sign_coordinator(authority, request, ["localhost", "127.0.0.1"]))


@pytest.mark.parametrize("name", ["", "server", "localhost", "North", "a.b", "a/b", "-a", "a" * 64, "_admin_x", "a\n"])
def test_names_with_a_meaning_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(FedveilError, match="a site's name"):
        check_site_name(name)


def test_a_request_is_signed_for_the_invited_name_alone(authority: Path, tmp_path: Path) -> None:
    request = request_certificate(tmp_path / "north.key", "north")
    with pytest.raises(FedveilError, match="for 'north', not for 'south'"):
        sign_site(authority, request, "south")
    with pytest.raises(FedveilError, match="can't be read"):
        sign_site(authority, b"no request", "north")


def test_a_request_that_was_changed_is_refused(authority: Path, tmp_path: Path) -> None:
    other = x509.load_pem_x509_csr(request_certificate(tmp_path / "other.key", "north"))
    mine = x509.load_pem_x509_csr(request_certificate(tmp_path / "north.key", "north"))
    forged = mine.public_bytes(serialization.Encoding.DER).replace(mine.signature, other.signature)
    pem = x509.load_der_x509_csr(forged).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(FedveilError, match="not signed by the key"):
        sign_site(authority, pem, "north")


def test_a_key_that_nvflare_can_not_use_is_refused(authority: Path) -> None:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "north")])
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    with pytest.raises(FedveilError, match="RSA"):
        sign_site(authority, request.public_bytes(serialization.Encoding.PEM), "north")


def test_a_certificate_of_another_authority_or_key_or_name_is_refused(authority: Path, tmp_path: Path) -> None:
    make_authority(tmp_path, "hearts")
    request = request_certificate(tmp_path / "north.key", "north")
    root = authority_certificate(authority)
    foreign, own = sign_site(tmp_path, request, "north"), sign_site(authority, request, "north")
    with pytest.raises(FedveilError, match="not signed by this federation"):
        check_certificate(foreign, authority=root, key_file=tmp_path / "north.key", name="north")
    with pytest.raises(FedveilError, match="for 'north', not for 'south'"):
        check_certificate(own, authority=root, key_file=tmp_path / "north.key", name="south")
    request_certificate(tmp_path / "other.key", "north")
    with pytest.raises(FedveilError, match="another key"):
        check_certificate(own, authority=root, key_file=tmp_path / "other.key", name="north")
