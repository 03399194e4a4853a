"""What a failed TLS handshake means, by OpenSSL's verdict or the broker's alert."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.network.bootstrap import TlsFailed, WrongProtocol

if TYPE_CHECKING:
    import ssl

    from kcli.client.network.metadata import Node
    from kcli.errors import KcliError
    from kcli.security.certificates.certificate import Certificate

UNTRUSTED = (18, 19, 20, 21)
NOT_YET_VALID, EXPIRED = 9, 10
WRONG_NAME = (62, 64)

NO_CERTIFICATE = (
    "TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_HANDSHAKE_FAILURE",
)  # fmt: skip
"""The alerts 116, 42 and 40: what a broker says that misses a certificate."""
BAD_CERTIFICATE = (
    "TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_BAD_CERTIFICATE",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
)  # fmt: skip
"""The alerts 48, 46, 42, 45 and 43: what it says of one that it does not accept."""
NO_VERSION = (
    "TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "WRONG_SSL_VERSION",
)  # fmt: skip
NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")


def ssl_error_of(error: BaseException) -> ssl.SSLError | None:
    """Return OpenSSL's error behind another one, None without one. An end of the stream is none."""
    import ssl

    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLError) and not isinstance(found, ssl.SSLEOFError):
            return found
        found = found.__cause__ or found.__context__
    return None


def tls_refusal(
    error: ssl.SSLError, node: Node, *, has_key: bool, certificate: bytes | None = None
) -> KcliError:
    """Return what a handshake failed of; `certificate` is the broker's as DER, if it is known."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return _unverified(error, node, certificate)
    reason, address = error.reason or "", node.address
    if reason in NO_CERTIFICATE and not has_key:
        return TlsFailed(
            f"{address} wants a certificate of the client",
            hint="set `ssl.keystore.location`, and what opens the store",
        )
    if reason in BAD_CERTIFICATE:
        return TlsFailed(
            f"{address} does not trust the certificate of the client",
            hint="its trust store must have the authority of the certificate in `ssl.keystore.location`",
        )
    if reason in NO_VERSION:
        return TlsFailed(
            f"{address} and the client have no TLS version in common", hint="check `ssl.enabled.protocols`"
        )
    if reason in NO_TLS:
        return no_tls(address)
    told = reason.lower().replace("_", " ") or "no reason is known"
    return TlsFailed(f"no TLS connection to {address}: {told}", hint="check the `ssl.` properties")


def no_tls(address: str) -> KcliError:
    """Return the error of a listener that answers without TLS."""
    return WrongProtocol(
        f"{address} does not speak TLS",
        hint="is it a PLAINTEXT listener? then set `security.protocol` to PLAINTEXT or SASL_PLAINTEXT",
    )


def _unverified(error: ssl.SSLCertVerificationError, node: Node, encoded: bytes | None) -> KcliError:
    code, subject, certificate = error.verify_code, f"the certificate of {node.address}", _parsed(encoded)
    if code in UNTRUSTED:
        issuer = f": {certificate.issuer} issued it" if certificate else ""
        return TlsFailed(
            f"{subject} is not from a trusted authority{issuer}",
            hint="set `ssl.truststore.location` to a store with the authority's certificate",
        )
    if code in WRONG_NAME:
        names = f"for {' and '.join(certificate.names)}, " if certificate and certificate.names else ""
        return TlsFailed(
            f"{subject} is {names}not for {node.host}",
            hint="use a name of the certificate, or have one issued for this name",
        )
    if code == NOT_YET_VALID:
        day = f" before {certificate.not_before:%Y-%m-%d}" if certificate else " yet"
        return TlsFailed(f"{subject} is not valid{day}", hint="check the clock of this machine")
    if code == EXPIRED:
        day = f" on {certificate.not_after:%Y-%m-%d}" if certificate else ""
        return TlsFailed(f"{subject} has expired{day}", hint="the broker needs a new one")
    return TlsFailed(f"{subject} is not accepted: {error.verify_message}", hint="check the trust store")


def _parsed(certificate: bytes | None) -> Certificate | None:
    from kcli.security.certificates.certificate import Certificate

    try:
        return Certificate.parse(certificate) if certificate else None
    except ValueError:
        # The error is told without what a malformed certificate says.
        return None
