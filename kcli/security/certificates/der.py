"""DER: elements of ASN.1's tag, length and value, as certificates and keys are written (X.690)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SEQUENCE, SET, OBJECT_IDENTIFIER, OCTET_STRING = 0x30, 0x31, 0x06, 0x04


class Element(NamedTuple):
    """One element: its tag, its value, and all its bytes."""

    tag: int
    value: bytes
    encoded: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Yield the elements that stand one after another; raise `ValueError` for malformed bytes."""
    start = 0
    while start < len(data):
        element = _element(data, start)
        yield element
        start += len(element.encoded)


def inner(element: Element, tag: int = SEQUENCE) -> list[Element]:
    """Return the elements inside of one; raise `ValueError` if it has another tag or is malformed."""
    if element.tag != tag:
        raise ValueError(f"unexpected tag {element.tag:#x}")
    return list(elements(element.value))


def only(data: bytes) -> Element:
    """Return the element that the bytes are; raise `ValueError` for none or more."""
    (element,) = elements(data)
    return element


def dotted(value: bytes) -> str:
    """Return an object identifier as numbers with dots; raise `ValueError` if it is cut."""
    numbers: list[int] = []
    number = 0
    for byte in value:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    if not value or value[-1] >= 0x80:
        raise ValueError("cut object identifier")
    # The first two share a number.
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _element(data: bytes, start: int) -> Element:
    if len(data) < start + 2:
        raise ValueError("cut element")
    tag, length = data[start], data[start + 1]
    if tag & 0x1F == 0x1F:
        raise ValueError("tag of several bytes")
    begin = start + 2
    if length >= 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4 or len(data) < begin + count:
            raise ValueError("malformed length")
        length = int.from_bytes(data[begin : begin + count], "big")
        begin += count
    end = begin + length
    if end > len(data):
        raise ValueError("cut element")
    return Element(tag, data[begin:end], data[start:end])
