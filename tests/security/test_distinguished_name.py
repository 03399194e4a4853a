"""Names of certificates as text: where `cryptography` and Java agree, and malformed bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.security.certificates.der import only
from kcli.security.certificates.distinguished_name import issuer_of, name_text, subject_of
from kcli.security.certificates.pem import certificates_of

if TYPE_CHECKING:
    from tests.support.certificates import Certificates


def test_subject_and_issuer_are_those_that_cryptography_reads(certificates: Certificates) -> None:
    from cryptography import x509

    for name in ("ca.pem", "alice.pem", "broker.pem"):
        (certificate, *_above) = certificates_of(certificates.text(name))
        read = x509.load_der_x509_certificate(certificate)
        assert x509.Name.from_rfc4514_string(subject_of(certificate)) == read.subject
        assert x509.Name.from_rfc4514_string(issuer_of(certificate)) == read.issuer


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["2.5.4.3", "2.5.4.10", "2.5.4.11", "2.5.4.8", "0.9.2342.19200300.100.1.1"]),
            st.text(st.sampled_from('aZ é日𝄞 ,+"\\<>;#'), min_size=1, max_size=8),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_names_are_those_of_rfc_4514(parts: list[tuple[str, str]]) -> None:
    from cryptography import x509

    name = x509.Name([x509.NameAttribute(x509.ObjectIdentifier(kind), value) for kind, value in parts])
    text = name_text(only(name.public_bytes()))
    # Both escape in their own way; the text says the same.
    assert x509.Name.from_rfc4514_string(text) == name


@given(st.binary(max_size=40))
def test_malformed_bytes_are_one_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of many kinds
        subject_of(data)


def test_a_damaged_certificate_is_read_or_refused(certificates: Certificates) -> None:
    (certificate, *_above) = certificates_of(certificates.text("alice.pem"))
    refused = 0
    for position in range(len(certificate)):
        for damaged in (
            certificate[:position],
            certificate[:position] + bytes([certificate[position] ^ 0x80]) + certificate[position + 1 :],
        ):
            try:
                assert subject_of(damaged)
            except ValueError:
                refused += 1
    assert refused > len(certificate)
