"""Why TLS handshakes fail, in words for the log of the broker."""

from __future__ import annotations


class NoTlsClient(OSError):
    """The client does not speak TLS; the message says what it seems to speak."""


_REASONS = {
    "WRONG_VERSION_NUMBER": "the client does not speak TLS",
    "HTTP_REQUEST": "the client speaks HTTP, not TLS",
    "UNSUPPORTED_PROTOCOL": "the client offers no version of TLS that `ssl.enabled.protocols` has",
    "NO_SHARED_CIPHER": "the client offers no cipher suite that the listener accepts",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, which `ssl.client.auth` requires",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the authority of the listener's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the listener's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the listener's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client finds the listener's certificate expired",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the client refuses the version of TLS",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the client gave up the handshake",
}


def failure_text(error: OSError) -> str | None:
    """Return why the client's handshake failed; None for a connection that broke."""
    import ssl

    if isinstance(error, NoTlsClient):
        return str(error)
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
        return None
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    reason = error.reason or str(error)
    return _REASONS.get(reason, reason.lower().replace("_", " "))
