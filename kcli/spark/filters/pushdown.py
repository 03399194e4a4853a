"""Push-down: the conditions on topic, partition, offset and timestamp narrow what is read.

Narrowing is sound but not complete: rows that remain may fail the filter and must be filtered too. A lower
bound of the timestamp moves the start, because every record before the earliest match is older; an upper
bound moves nothing, because timestamps need not ascend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING

from kcli.spark.filters.where import Comparison, In

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.protocol.topics import TopicPartition
    from kcli.spark.filters.where import Condition, Literal

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OPERATORS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The partitions and offsets that a filter leaves; a bound is None if the filter sets none."""

    names: tuple[Comparison | In, ...] = ()
    """The conditions on topic and partition."""
    min_offset: int | None = None
    end_offset: int | None = None
    """The first offset that is not wanted."""
    min_timestamp_ms: int | None = None

    def allows(self, partition: TopicPartition) -> bool:
        """Return whether rows of a partition can pass."""
        return all(
            _holds(one, partition.topic if one.column == ("topic",) else partition.partition)
            for one in self.names
        )


def narrowing_of(conditions: Iterable[Condition]) -> Narrowing | None:
    """Return the bounds that conditions set, None if they set none."""
    names: list[Comparison | In] = []
    lows: list[int] = []
    ends: list[int] = []
    oldest: list[int] = []
    for one in conditions:
        match one:
            case Comparison(("topic",), _, str()) | In(("topic",)) if _all_are(one, str):
                names.append(one)
            case Comparison(("partition",)) | In(("partition",)) if _all_are(one, int, float):
                names.append(one)
            case Comparison(("offset",), operator, int() | float() as value) if math.isfinite(value):
                _bound(operator, value, lows, ends)
            case In(("offset",), values, False) if values and _all_are(one, int, float):
                _bound(">=", min(values), lows, ends)  # type: ignore[arg-type]  # all are numbers
                _bound("<=", max(values), lows, ends)  # type: ignore[arg-type]
            case Comparison(("timestamp",), "=" | ">" | ">=", datetime() as moment):
                # Timestamps are whole milliseconds: the earliest that can pass, rounded up.
                moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
                since = (moment - _EPOCH) // timedelta(microseconds=1)
                oldest.append(since // 1000 + 1 if one.operator == ">" else -(-since // 1000))
    if not (names or lows or ends or oldest):
        return None
    return Narrowing(
        tuple(names),
        max(lows) if lows else None,
        min(ends) if ends else None,
        max(oldest) if oldest else None,
    )


def _bound(operator: str, value: float, lows: list[int], ends: list[int]) -> None:
    if operator in ("=", ">="):
        lows.append(math.ceil(value))
    if operator == ">":
        lows.append(math.floor(value) + 1)
    if operator in ("=", "<="):
        ends.append(math.floor(value) + 1)
    if operator == "<":
        ends.append(math.ceil(value))


def _all_are(one: Comparison | In, *kinds: type) -> bool:
    values = one.values if isinstance(one, In) else (one.value,)
    return all(isinstance(value, kinds) and not isinstance(value, bool) for value in values)


def _holds(one: Comparison | In, actual: Literal) -> bool:
    if isinstance(one, In):
        return (actual in one.values) != one.negated
    return bool(_OPERATORS[one.operator](actual, one.value))
