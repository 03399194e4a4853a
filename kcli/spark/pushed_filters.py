"""Filters that Spark pushes down, as conjuncts that narrow what is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import datasource as spark

from kcli.spark.ranges.conjuncts import Comparison, Conjunct, In

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_COMPARISONS = {
    spark.EqualTo: "=",
    spark.EqualNullSafe: "=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}
_OPPOSITE = {"=": "!=", "!=": "=", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}


def conjuncts_of(filters: Iterable[spark.Filter]) -> Iterator[Conjunct]:
    """Yield what is understood of filters that all hold; what is not is left to Spark."""
    for one in filters:
        found = _conjunct(one)
        if found is not None:
            yield found


def _conjunct(one: spark.Filter) -> Conjunct | None:
    match one:
        case spark.Not(child):
            return _negated(_conjunct(child))
        case spark.In(attribute, value):
            # A null among the values changes nothing: it equals no row.
            return In(tuple(attribute), tuple(item for item in value if item is not None))
        case _ if type(one) in _COMPARISONS and one.value is not None:
            return Comparison(tuple(one.attribute), _COMPARISONS[type(one)], one.value)
    return None


def _negated(conjunct: Conjunct | None) -> Conjunct | None:
    match conjunct:
        case Comparison(column, operator, value):
            return Comparison(column, _OPPOSITE[operator], value)
        case In(column, values, negated):
            return In(column, values, not negated)
    return None
