"""Certificate: what a certificate says, read from its DER (X.509, RFC 5280)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from kcli.security.certificates.der import OBJECT_IDENTIFIER, OCTET_STRING, dotted, elements, inner, only
from kcli.security.certificates.distinguished_name import name_text, signed_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.security.certificates.der import Element

_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_EXTENSIONS = 0xA3
_ALTERNATIVE_NAMES, _BASIC_CONSTRAINTS = "2.5.29.17", "2.5.29.19"
_EMAIL, _DNS, _DIRECTORY, _URI, _ADDRESS = 0x81, 0x82, 0xA4, 0x86, 0x87

_KEYS = {"1.2.840.113549.1.1.1": "RSA", "1.2.840.10045.2.1": "EC", "1.3.101.112": "Ed25519"}
_CURVES = {"1.2.840.10045.3.1.7": "P-256", "1.3.132.0.34": "P-384", "1.3.132.0.35": "P-521"}


class Certificate(NamedTuple):
    """A certificate: `names` are its alternative names, such as `localhost` and `127.0.0.1`."""

    subject: str
    issuer: str
    serial: int
    not_before: datetime
    not_after: datetime
    key: str
    names: tuple[str, ...] = ()
    is_authority: bool = False

    @classmethod
    def parse(cls, encoded: bytes) -> Certificate:
        """Return what a certificate in DER says; raise `ValueError` if it is malformed."""
        serial, _signature, issuer, validity, subject, key, *others = signed_fields(encoded)
        begin, end = inner(validity)
        extensions = _extensions(others)
        return cls(
            subject=name_text(subject),
            issuer=name_text(issuer),
            serial=int.from_bytes(serial.value, "big", signed=True),
            not_before=_time(begin),
            not_after=_time(end),
            key=_key_kind(key),
            names=tuple(_names(extensions.get(_ALTERNATIVE_NAMES, b""))),
            is_authority=_is_authority(extensions.get(_BASIC_CONSTRAINTS, b"")),
        )


def _time(element: Element) -> datetime:
    text = element.value.decode("ascii")
    if element.tag == _UTC_TIME:
        # Two digits of a year are those of 1950 to 2049.
        text = ("20" if text[:2] < "50" else "19") + text
    elif element.tag != _GENERALIZED_TIME:
        raise ValueError(f"no time: tag {element.tag:#x}")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _key_kind(info: Element) -> str:
    """Return a key's algorithm with its size or curve."""
    algorithm, bits = inner(info)
    kind, *parameters = inner(algorithm)
    number = dotted(kind.value)
    name = _KEYS.get(number, number)
    if name == "RSA":
        modulus = inner(only(bits.value[1:]))[0]
        return f"RSA {int.from_bytes(modulus.value, 'big').bit_length()}"
    if name == "EC" and parameters and parameters[0].tag == OBJECT_IDENTIFIER:
        curve = dotted(parameters[0].value)
        return f"EC {_CURVES.get(curve, curve)}"
    return name


def _extensions(fields: list[Element]) -> dict[str, bytes]:
    """Return the value of each extension, by its number."""
    found = {}
    for field in fields:
        if field.tag == _EXTENSIONS:
            for extension in inner(only(field.value)):
                parts = inner(extension)
                if parts[-1].tag != OCTET_STRING:
                    raise ValueError("an extension without value")
                found[dotted(parts[0].value)] = parts[-1].value
    return found


def _names(value: bytes) -> Iterator[str]:
    """Yield alternative names as text; kinds that TLS does not use are left out."""
    import ipaddress

    for name in inner(only(value)) if value else ():
        if name.tag in (_EMAIL, _DNS, _URI):
            yield name.value.decode("ascii", "replace")
        elif name.tag == _ADDRESS:
            yield str(ipaddress.ip_address(name.value))
        elif name.tag == _DIRECTORY:
            yield name_text(only(name.value))


def _is_authority(value: bytes) -> bool:
    parts = list(elements(only(value).value)) if value else []
    return bool(parts) and parts[0].tag == 0x01 and parts[0].value != b"\0"
