"""Compares two decoded responses: which values differ, and where.

Not compared: ids that brokers choose, times, addresses, sizes of disks, the order of lists, and of an error
message more than whether there is one, because the words are each broker's own. A list of aborted
transactions may be null where there are none. Record data is compared
record by record, so that the output of a compressor does not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import HEADER, HEADER_SIZE, LOG_OVERHEAD, TIMESTAMP_TYPE_BIT
from kcli.protocol.schema.fields import fields_of
from tests.differential.sides import NoResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

IGNORED = {
    "throttle_time_ms", "host", "port", "cluster_id", "controller_id", "log_dir", "total_bytes",
    "usable_bytes", "finalized_features_epoch", "heartbeat_interval_ms", "cordoned",
    "api_keys", "documentation",
}  # fmt: skip
"""Fields that say how a broker is set up, when something happened, or what `kcli.protocol.apis` decides."""

PRESENCE = {"error_message", "batch_index_error_message", "session_id"}
"""Fields of which only whether they are set is compared."""

CHOSEN = {"InitProducerIdResponse.producer_id": -1, "CreatableTopicResult.topic_id": bytes(16)}
"""Ids that a broker chooses, and the value that means none: any two others are equal."""

TIMES = {
    "log_append_time_ms", "last_timestamp", "transaction_start_time_ms",
    "ListOffsetsPartitionResponse.timestamp",
}  # fmt: skip
"""Times of a broker's own clock."""

IDENTITIES = (
    "name", "topic", "topic_name", "topic_id", "group_id", "member_id", "resource_name", "resource_type",
    "partition_index", "partition", "index", "config_name", "node_id", "broker_id", "entity_type",
    "entity_name", "key", "transactional_id", "principal", "user", "operation", "permission_type",
    "pattern_type",
)  # fmt: skip
"""Fields that tell the elements of a list apart, for which reason their values are part of a path."""


class Difference(NamedTuple):
    """One value that differs. `path` names the fields to it, without positions in lists."""

    path: str
    apache: Any
    kcli: Any
    names: tuple[Any, ...] = ()
    """What identifies the elements of lists on the path: names of topics, numbers of partitions …"""

    def __str__(self) -> str:
        return f"{self.path}: Apache {_shown(self.path, self.apache)}, kcli {_shown(self.path, self.kcli)}"


ABSENT = "(absent)"


def differences(apache: Any, kcli: Any, is_foreign: Any = lambda name: False) -> list[Difference]:
    """Compare two outcomes; elements of lists whose name `is_foreign` are left out."""
    if isinstance(apache, NoResponse) or isinstance(kcli, NoResponse):
        if apache == kcli:
            return []
        return [
            Difference(
                "", *(each.kind if isinstance(each, NoResponse) else "a response" for each in (apache, kcli))
            )
        ]
    if apache == kcli:
        return []
    one, other = (plain(each, is_foreign) for each in (apache, kcli))
    return list(_compare("", one, other))


def _compare(path: str, apache: Any, kcli: Any, names: tuple[Any, ...] = ()) -> Iterator[Difference]:
    if apache == kcli:
        return
    if isinstance(apache, dict) and isinstance(kcli, dict):
        for name in {**apache, **kcli}:
            below = name if isinstance(name, str) else None
            deeper = path if below is None else f"{path}.{below}" if path else below
            known = names if isinstance(name, str) else (*names, *name)
            yield from _compare(deeper, apache.get(name, ABSENT), kcli.get(name, ABSENT), known)
    elif isinstance(apache, list) and isinstance(kcli, list) and len(apache) == len(kcli):
        for one, other in zip(apache, kcli, strict=True):
            yield from _compare(path, one, other, names)
    else:
        yield Difference(path, apache, kcli, names)


def plain(value: Any, is_foreign: Any) -> Any:
    """A response as dictionaries and scalars. A list of structs is a dictionary by their identities."""
    cls = type(value)
    found: dict[Any, Any] = {}
    for field in fields_of(cls):
        name, part = field.name, getattr(value, field.name)
        if name in IGNORED or (name == "aborted_transactions" and not part):
            continue
        if field.struct is not None and isinstance(part, list):
            found[name] = _by_identity(part, is_foreign)
        elif field.struct is not None:
            found[name] = None if part is None else plain(part, is_foreign)
        elif name in PRESENCE:
            found[name] = "(set)" if part else "(not set)"
        elif f"{cls.__name__}.{name}" in CHOSEN:
            found[name] = part if part == CHOSEN[f"{cls.__name__}.{name}"] else "(chosen)"
        elif name in TIMES or f"{cls.__name__}.{name}" in TIMES:
            found[name] = part if part < 0 else "(a time)"
        elif field.wire is not None and field.wire.kind == "records":
            found[name] = None if part is None else list(_batches(bytes(part)))
        elif isinstance(part, list):
            found[name] = sorted(part, key=repr)
        else:
            found[name] = part
    return found


def _by_identity(structs: Iterable[Any], is_foreign: Any) -> dict[Any, Any]:
    """The structs by their identities, repeated ones by a number behind it.

    A struct that only groups others, such as a topic with its partitions, is the same as two that share them,
    and as none if it has none.
    """
    found: dict[Any, Any] = {}
    for each in structs:
        cls = type(each)
        names = [
            name for name in cls.__slots__ if name in IDENTITIES and f"{cls.__name__}.{name}" not in CHOSEN
        ]
        identity = tuple(getattr(each, name) for name in names)
        if "entity" in cls.__slots__:
            identity = tuple(sorted((part.entity_type, part.entity_name or "") for part in each.entity))
        if any(isinstance(part, str) and is_foreign(part) for part in identity):
            continue
        rest = [name for name in type(each).__slots__ if name not in IDENTITIES]
        if len(rest) == 1 and isinstance(getattr(each, rest[0]), list):
            rows = found.setdefault(identity, {name: getattr(each, name) for name in names} | {rest[0]: []})
            rows[rest[0]].extend(getattr(each, rest[0]))
            continue
        number = 0
        while (*identity, number) in found:
            number += 1
        found[*identity, number] = plain(each, is_foreign)
    for identity, rows in list(found.items()):
        for name, part in rows.items():
            if isinstance(part, list) and part and hasattr(part[0], "__slots__"):
                rows[name] = _by_identity(part, is_foreign)
        if len(rows) > 1 and all(name in IDENTITIES or part in ([], {}) for name, part in rows.items()):
            del found[identity]
    return found


def _batches(data: bytes) -> Iterator[Any]:
    """Each batch as its header and records; what is cut, damaged or of an old format as bytes."""
    position = 0
    while position < len(data):
        rest = data[position:]
        if len(rest) < HEADER_SIZE or rest[16] != 2:
            yield ("cut", len(rest)) if len(rest) < HEADER_SIZE else rest
            return
        header = list(HEADER.unpack_from(rest))
        size = header[1] + LOG_OVERHEAD
        if len(rest) < size:
            yield ("cut", len(rest), header[0])
            return
        header[1] = header[4] = 0
        by_append = bool(header[5] & TIMESTAMP_TYPE_BIT)
        if by_append:
            header[7] = header[8] = 0
        yield (*header, _records(rest[:size], by_append))
        position += size


def _records(batch: bytes, by_append: bool) -> Any:
    try:
        return [
            (record.offset, 0 if by_append else record.timestamp, record.key, record.value, record.headers)
            for record in RecordBatch(batch).records()
        ]
    except CorruptRecord:
        return batch[HEADER_SIZE:]


def _shown(path: str, value: Any) -> str:
    if path.endswith("error_code") and isinstance(value, int):
        try:
            return f"{value} ({ErrorCode(value).name})"
        except ValueError:
            return str(value)
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
