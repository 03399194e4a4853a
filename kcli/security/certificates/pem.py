"""PEM text: private keys and certificates between `-----BEGIN …-----` lines.

As in Kafka's `DefaultSslEngineFactory.PemParser` a block may stand on one line, as properties files write it,
and text around the blocks is ignored.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import NamedTuple

_BLOCK = re.compile(
    r"-+BEGIN\s+(?P<label>[A-Z0-9 ]+?)-+"
    r"(?P<headers>(?:\s*[A-Za-z-]+:[^\r\n]*[\r\n]+)*)"
    r"(?P<body>[A-Za-z0-9+/=\s]*)"
    r"-+END\s+(?P=label)-+"
)
_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE")


class PemBlock(NamedTuple):
    """One block: its label, the headers of an old encrypted key, and its bytes."""

    label: str
    headers: str
    data: bytes

    @property
    def is_encrypted(self) -> bool:
        """Return whether this is a private key that needs a password."""
        return self.label == "ENCRYPTED PRIVATE KEY" or "ENCRYPTED" in self.headers

    def to_text(self) -> str:
        """Return the block as OpenSSL reads it."""
        text = b64encode(self.data).decode("ascii")
        lines = [text[start : start + 64] for start in range(0, len(text), 64)]
        headers = [*(line.strip() for line in self.headers.split("\n") if line.strip())]
        middle = [*headers, "", *lines] if headers else lines
        return "\n".join([f"-----BEGIN {self.label}-----", *middle, f"-----END {self.label}-----", ""])


def pem_blocks(text: str) -> list[PemBlock]:
    """Return the blocks of a text in order; raise `ValueError` for a body that is not base64."""
    return [
        PemBlock(" ".join(match["label"].split()), match["headers"], _decoded(match["body"]))
        for match in _BLOCK.finditer(text)
    ]


def _decoded(body: str) -> bytes:
    try:
        return b64decode("".join(body.split()), validate=True)
    except ValueError as error:
        raise ValueError("it is damaged") from error


def certificates_of(text: str) -> tuple[bytes, ...]:
    """Return the certificates of a text, as DER; raise `ValueError` without any."""
    found = tuple(block.data for block in pem_blocks(text) if block.label in _CERTIFICATES)
    if not found:
        raise ValueError("it has no certificate")
    return found


def private_key_of(text: str) -> PemBlock:
    """Return the only private key of a text; raise `ValueError` for none or several."""
    found = [block for block in pem_blocks(text) if block.label.endswith("PRIVATE KEY")]
    if len(found) != 1:
        raise ValueError(f"it has {len(found)} private keys" if found else "it has no private key")
    return found[0]


def to_pem(certificates: tuple[bytes, ...]) -> str:
    """Return certificates, given as DER, as PEM text."""
    return "".join(PemBlock("CERTIFICATE", "", each).to_text() for each in certificates)
