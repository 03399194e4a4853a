"""CertificateAuthority: makes keys and certificates for development, with the library `cryptography`.

Keys are EC P-256. Everything is PEM; keys are PKCS 8, the only form that Java reads.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError, UsageError, install_hint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_DAYS = 365
LEAF_DAYS = 30
RENEWED_DAYS = 7
"""A certificate that ends sooner is replaced."""

_CLOCK_SKEW = timedelta(hours=1)
"""How much earlier than now a certificate is valid: the clocks of clients differ."""


class CertificateAuthority(NamedTuple):
    """An authority's certificate and private key, objects of `cryptography`."""

    certificate: x509.Certificate
    key: EllipticCurvePrivateKey

    @classmethod
    def make(cls, now: datetime) -> CertificateAuthority:
        """Return a new authority. Raises `KcliError` without `cryptography`."""
        need_cryptography()
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        key = ec.generate_private_key(ec.SECP256R1())
        # Two authorities of one name would be taken for one another.
        common_name = f"kcli development authority {x509.random_serial_number() % 2**32:08x}"
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = _builder(name, key, now, days=AUTHORITY_DAYS).issuer_name(name)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(is_authority=True), critical=True)
        return cls(_signed(builder, key), key)

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> CertificateAuthority:
        """Return the authority of two PEM texts; raise `ValueError` if they are damaged or no pair."""
        need_cryptography()
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        loaded = cls(x509.load_pem_x509_certificate(certificate), load_pem_private_key(key, None))
        is_ours = isinstance(loaded.key, ec.EllipticCurvePrivateKey)
        if not is_ours or loaded.key.public_key() != loaded.certificate.public_key():
            raise ValueError("the key is not that of the certificate")
        return loaded

    @property
    def certificate_pem(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding

        text: bytes = self.certificate.public_bytes(Encoding.PEM)
        return text

    @property
    def key_pem(self) -> bytes:
        return _key_pem(self.key)

    @property
    def trust_store(self) -> bytes:
        """Return a PKCS12 store that trusts this authority, for the password of `TRUST_STORE_PASSWORD`."""
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

        entry = pkcs12.PKCS12Certificate(self.certificate, b"kcli")
        encryption = BestAvailableEncryption(TRUST_STORE_PASSWORD.encode())
        store: bytes = pkcs12.serialize_java_truststore([entry], encryption)
        return store

    def issue(
        self, subject: str, names: Sequence[str], now: datetime, *, is_client: bool, days: int = LEAF_DAYS
    ) -> bytes:
        """Return a new private key and its certificate. Raises `UsageError` for a malformed name."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        try:
            name = x509.Name.from_rfc4514_string(subject)
        except ValueError as error:
            raise UsageError(
                f"`{subject}` is no distinguished name", hint="write it as `CN=alice,O=kcli`"
            ) from error
        builder = _builder(name, key, now, days=days, latest=self.certificate.not_valid_after_utc)
        builder = builder.issuer_name(self.certificate.subject)
        purpose = ExtendedKeyUsageOID.CLIENT_AUTH if is_client else ExtendedKeyUsageOID.SERVER_AUTH
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_key_usage(is_authority=False), True),
            (x509.ExtendedKeyUsage([purpose]), False),
            (above, False),
        ]
        if names:
            extensions.append((x509.SubjectAlternativeName([_general_name(each) for each in names]), False))
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, critical=is_critical)
        certificate: bytes = _signed(builder, self.key).public_bytes(Encoding.PEM)
        return _key_pem(key) + certificate


TRUST_STORE_PASSWORD = "changeit"
"""Java's usual one: a trust store holds nothing secret, but needs a password."""


def need_cryptography() -> None:
    """Raise `KcliError` if `cryptography` is not installed."""
    try:
        import cryptography.x509  # noqa: F401
    except ImportError as error:
        raise KcliError(
            "making certificates needs cryptography", hint=install_hint("tls", "cryptography")
        ) from error


def _builder(
    name: x509.Name, key: EllipticCurvePrivateKey, now: datetime, *, days: int, latest: datetime | None = None
) -> x509.CertificateBuilder:
    """Return a certificate to be, that ends after `days` or at `latest`."""
    from cryptography import x509

    end = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(end if latest is None else min(end, latest))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def plain_name(name: str) -> str:
    """Return an address in its shortest form, or a host name in small letters of ASCII.

    Raises `UsageError` for a name that no certificate can have.
    """
    import ipaddress

    try:
        return str(ipaddress.ip_address(name.partition("%")[0]))
    except ValueError:
        pass  # A name then.
    try:
        return (name if name.isascii() else name.encode("idna").decode("ascii")).lower()
    except ValueError as error:
        raise UsageError(f"`{name}` cannot stand in a certificate") from error


def _general_name(name: str) -> x509.GeneralName:
    import ipaddress

    from cryptography import x509

    plain = plain_name(name)
    is_address = ":" in plain or plain.replace(".", "").isdecimal()
    return x509.IPAddress(ipaddress.ip_address(plain)) if is_address else x509.DNSName(plain)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    text: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return text
