"""TopicHashes: hashes of the topics of consumer groups; a change of the hash starts a new assignment.

A topic's hash covers its id, its name, and the racks of each partition's replicas. A group's hash covers the
hashes of its topics in the order of their names. Hashes are stored (KIP-1101), so they equal Apache Kafka's
bit by bit (class `org.apache.kafka.coordinator.group.Utils`). The hash function is 64-bit XXH3 without a
seed:

    up to 16 bytes    a formula for each of 0, 1 to 3, 4 to 8, 9 to 16 bytes
    up to 128         pairs of 16 bytes, from both ends inwards
    up to 240         16 bytes after the other
    more              blocks of 16 stripes of 64 bytes, into eight accumulators

All numbers are little endian. The code is pure Python, too slow for large data.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.java import java_order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.metadata.registrations import TopicImage


_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)

_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1, _PRIME64_2, _PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME64_4, _PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_PRIME_MX1, _PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25

_MASK32, _MASK = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF

_U32, _U64, _LANES = Struct("<I"), Struct("<Q"), Struct("<8Q")

_STRIPE, _STRIPES_PER_BLOCK = 64, 16
_BLOCK = _STRIPE * _STRIPES_PER_BLOCK
_SCRAMBLE = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)


def xxh3_64(data: bytes) -> int:
    """Return the hash of some bytes, as the signed number that Java sees."""
    size = len(data)
    if size <= 16:
        value = _tiny(data, size)
    elif size <= 128:
        value = _short(data, size)
    elif size <= 240:
        value = _middle(data, size)
    else:
        value = _long(data, size)
    return value - (1 << 64) if value >> 63 else value


def _tiny(data: bytes, size: int) -> int:
    if size > 8:
        low = _secret(24) ^ _secret(32) ^ _u64(data, 0)
        high = _secret(40) ^ _secret(48) ^ _u64(data, size - 8)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(size + swapped + high + _folded(low, high) & _MASK)
    if size > 3:
        value = _secret(8) ^ _secret(16) ^ (_u32(data, size - 4) | _u32(data, 0) << 32)
        value ^= _rotated(value, 49) ^ _rotated(value, 24)
        value = value * _PRIME_MX2 & _MASK
        value ^= (value >> 35) + size
        value = value * _PRIME_MX2 & _MASK
        return value ^ value >> 28
    if size:
        combined = data[-1] | size << 8 | data[0] << 16 | data[size >> 1] << 24
        return _avalanche_64(_u32(_SECRET, 0) ^ _u32(_SECRET, 4) ^ combined)
    return _avalanche_64(_secret(56) ^ _secret(64))


def _short(data: bytes, size: int) -> int:
    total = size * _PRIME64_1
    for step in range((size - 1) // 32 + 1):
        total += _mixed(data, 16 * step, 32 * step)
        total += _mixed(data, size - 16 * step - 16, 32 * step + 16)
    return _avalanche(total & _MASK)


def _middle(data: bytes, size: int) -> int:
    total = size * _PRIME64_1 + sum(_mixed(data, 16 * step, 16 * step) for step in range(8))
    total = _avalanche(total & _MASK)
    total += sum(_mixed(data, 16 * step, 16 * (step - 8) + 3) for step in range(8, size // 16))
    total += _mixed(data, size - 16, 119)
    return _avalanche(total & _MASK)


def _long(data: bytes, size: int) -> int:
    lanes = [
        _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1
    ]  # fmt: skip
    for number in range((size - 1) // _STRIPE):
        if number and number % _STRIPES_PER_BLOCK == 0:
            lanes = _scrambled(lanes)
        _accumulate(lanes, data, number * _STRIPE, 8 * (number % _STRIPES_PER_BLOCK))
    if (size - 1) % _BLOCK < _STRIPE:
        lanes = _scrambled(lanes)
    _accumulate(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _PRIME64_1
    for pair in range(0, 8, 2):
        total += _folded(lanes[pair] ^ _secret(11 + 8 * pair), lanes[pair + 1] ^ _secret(19 + 8 * pair))
    return _avalanche(total & _MASK)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    secrets = _LANES.unpack_from(_SECRET, secret_at)
    for lane, (number, secret) in enumerate(zip(_LANES.unpack_from(data, at), secrets, strict=True)):
        value = number ^ secret
        lanes[lane ^ 1] = lanes[lane ^ 1] + number & _MASK
        lanes[lane] = lanes[lane] + (value & _MASK32) * (value >> 32) & _MASK


def _scrambled(lanes: list[int]) -> list[int]:
    return [
        (lane ^ lane >> 47 ^ secret) * _PRIME32_1 & _MASK
        for lane, secret in zip(lanes, _SCRAMBLE, strict=True)
    ]


def _mixed(data: bytes, at: int, secret_at: int) -> int:
    return _folded(_u64(data, at) ^ _secret(secret_at), _u64(data, at + 8) ^ _secret(secret_at + 8))


def _folded(left: int, right: int) -> int:
    product = left * right
    return product & _MASK ^ product >> 64


def _avalanche(value: int) -> int:
    value = (value ^ value >> 37) * _PRIME_MX1 & _MASK
    return value ^ value >> 32


def _avalanche_64(value: int) -> int:
    value = (value ^ value >> 33) * _PRIME64_2 & _MASK
    value = (value ^ value >> 29) * _PRIME64_3 & _MASK
    return value ^ value >> 32


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _secret(at: int) -> int:
    return _u64(_SECRET, at)


def _u64(data: bytes, at: int) -> int:
    (value,) = _U64.unpack_from(data, at)
    return int(value)


def _u32(data: bytes, at: int) -> int:
    (value,) = _U32.unpack_from(data, at)
    return int(value)


NO_TOPICS = 0
"""The hash of a group that reads no existing topic."""

_FORMAT = b"\0"
_I32, _I64 = Struct("<i"), Struct("<q")


class TopicHashes:
    """Computes the hashes of groups, and caches the hashes of unchanged topics."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, tuple[TopicImage, int]] = {}

    def of_group(self, names: Iterable[str], image: MetadataImage) -> int:
        """Return the hash of a group that reads these topics; names of missing topics do not count."""
        existing = sorted((name for name in set(names) if name in image.topics), key=java_order)
        if not existing:
            return NO_TOPICS
        return xxh3_64(b"".join(_I64.pack(self._of_topic(name, image)) for name in existing))

    def _of_topic(self, name: str, image: MetadataImage) -> int:
        topic = image.topics[name]
        known = self._known.get(name)
        if known is None or known[0] is not topic:
            known = self._known[name] = (topic, topic_hash(topic, image))
        return known[1]

    def forget(self, name: str) -> None:
        self._known.pop(name, None)


def topic_hash(topic: TopicImage, image: MetadataImage) -> int:
    low, high = topic.topic_id[7::-1], topic.topic_id[:7:-1]
    parts = [_FORMAT, low, high, _text(topic.name), _I32.pack(len(topic.partitions))]
    for index, partition in enumerate(topic.partitions):
        parts.append(_I32.pack(index))
        brokers = (image.brokers.get(node_id) for node_id in partition.replicas)
        racks = [broker.rack for broker in brokers if broker is not None and broker.rack is not None]
        for rack in sorted(racks, key=java_order):
            parts += (_I32.pack(len(_utf_16(rack)) // 2), _text(rack))
    return xxh3_64(b"".join(parts))


def _text(text: str) -> bytes:
    encoded = _utf_16(text)
    return encoded + _I32.pack(len(encoded) // 2)


def _utf_16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")
