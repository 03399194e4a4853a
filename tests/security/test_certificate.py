"""What a certificate says, beside what `cryptography` reads in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kcli.errors import UsageError
from kcli.security.certificates.certificate import Certificate
from kcli.security.certificates.certificate_authority import CertificateAuthority
from kcli.security.certificates.pem import certificates_of
from tests.broker.security.test_tls_files import NOW

if TYPE_CHECKING:
    from tests.support.certificates import Certificates

NAMES = ["localhost", "127.0.0.1", "::1", "bücher.example"]


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority.make(NOW)


def encoded(
    authority: CertificateAuthority, subject: str = "CN=alice,O=kcli", *, is_client: bool = True
) -> bytes:
    issued = authority.issue(subject, NAMES, NOW, is_client=is_client, days=1000)
    return certificates_of(issued.decode())[0]


def test_everything_is_as_cryptography_reads_it(authority: CertificateAuthority) -> None:
    from cryptography import x509

    certificate = encoded(authority)
    own, theirs = Certificate.parse(certificate), x509.load_der_x509_certificate(certificate)
    assert own.subject == theirs.subject.rfc4514_string() == "CN=alice,O=kcli"
    assert own.issuer == authority.certificate.subject.rfc4514_string()
    assert own.serial == theirs.serial_number
    assert (own.not_before, own.not_after) == (theirs.not_valid_before_utc, theirs.not_valid_after_utc)
    assert own.names == ("localhost", "127.0.0.1", "::1", "xn--bcher-kva.example")
    assert (own.key, own.is_authority) == ("EC P-256", False)
    theirs.verify_directly_issued_by(authority.certificate)


def test_an_issued_certificate_ends_with_its_authority(authority: CertificateAuthority) -> None:
    assert Certificate.parse(encoded(authority)).not_after == authority.certificate.not_valid_after_utc


def test_client_and_broker_are_told_apart(authority: CertificateAuthority) -> None:
    from cryptography import x509

    for is_client, purpose in ((True, "clientAuth"), (False, "serverAuth")):
        read = x509.load_der_x509_certificate(encoded(authority, is_client=is_client))
        usage = read.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert [each._name for each in usage] == [purpose]


@pytest.mark.parametrize("subject", ["alice", "CN=", "C=toolong", "CN=a,,O=b"])
def test_a_malformed_subject_is_refused(authority: CertificateAuthority, subject: str) -> None:
    with pytest.raises(UsageError, match="is no distinguished name"):
        encoded(authority, subject)


def test_other_keys_and_times_are_read(certificates: Certificates) -> None:
    import trustme

    # trustme's authorities end in the year 3000, which is a time of another form.
    authority = Certificate.parse(certificates_of(certificates.text("ca.pem"))[0])
    assert (authority.not_after.year, authority.is_authority) == (3000, True)
    rsa = trustme.CA(key_type=trustme.KeyType.RSA).cert_pem.bytes().decode()
    assert Certificate.parse(certificates_of(rsa)[0]).key == "RSA 2048"


def test_a_cut_certificate_is_refused(authority: CertificateAuthority) -> None:
    certificate = encoded(authority)
    for end in range(0, len(certificate), 7):
        with pytest.raises(ValueError):  # noqa: PT011 - of many kinds
            Certificate.parse(certificate[:end])
