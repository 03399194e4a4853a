"""Distinguished names of certificates as text, as Java's `X500Principal.getName` writes them (RFC 2253).

`ssl.getpeercert` does not keep the types of strings, which decide how a value is written: so the name is read
from the certificate's DER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.security.certificates.der import SET, dotted, inner, only

if TYPE_CHECKING:
    from kcli.security.certificates.der import Element

KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The types that have a name in RFC 2253; others are written with their numbers."""

_STRINGS = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E)
"""UTF8, Printable, T61, IA5, General and BMP: what Java writes as text, of UTF-8 whatever it is."""


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate given as DER; raise `ValueError` if it is malformed."""
    return name_text(signed_fields(certificate)[4])


def issuer_of(certificate: bytes) -> str:
    """Return the issuer of a certificate given as DER; raise `ValueError` if it is malformed."""
    return name_text(signed_fields(certificate)[2])


def name_text(name: Element) -> str:
    """Return a name, the most specific part first; raise `ValueError` if it is malformed."""
    parts = ["+".join(_attribute(each) for each in inner(part, SET)) for part in inner(name)]
    return ",".join(reversed(parts))


def signed_fields(certificate: bytes) -> list[Element]:
    """Return what is signed from the serial number on: subject is 4, issuer 2."""
    signed = inner(inner(only(certificate))[0])
    fields = signed[1:] if signed[0].tag == 0xA0 else signed
    if len(fields) < 6:
        raise ValueError("cut certificate")
    return fields


def _attribute(attribute: Element) -> str:
    kind, value = inner(attribute)
    number = dotted(kind.value)
    keyword = KEYWORDS.get(number)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or number}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    """Escape what RFC 2253 reserves, NUL, and blanks at both ends, which for Java are space and CR."""
    marked = "".join(
        f"\\{each}" if each in ',=+<>#;"\\' else "\\00" if each == "\0" else each for each in text
    )
    rest = marked.lstrip(" \r")
    kept = rest.rstrip(" \r")
    before, after = marked[: len(marked) - len(rest)], rest[len(kept) :]
    return "".join(f"\\{each}" for each in before) + kept + "".join(f"\\{each}" for each in after)
