"""Definitions: text to values and back, as Kafka's ConfigDef does it."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.config.config_definition import (
    ConfigDefinition,
    InvalidConfig,
    at_least,
    between,
    between_or,
    boolean,
    integer,
    one_of,
    optional,
    words,
)
from kcli.protocol.configs import ConfigType


def definition(type: ConfigType) -> ConfigDefinition[object]:
    return ConfigDefinition("a.name", type, None, "doc")


@pytest.mark.parametrize(
    ("type", "text", "value", "shown"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True, "true"),
        (ConfigType.BOOLEAN, "false", False, "false"),
        (ConfigType.INT, " -5 ", -5, "-5"),
        (ConfigType.INT, "+5", 5, "5"),
        (ConfigType.INT, "2147483647", 2**31 - 1, "2147483647"),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1, "9223372036854775807"),
        (ConfigType.DOUBLE, ".25", 0.25, "0.25"),
        (ConfigType.DOUBLE, "1", 1.0, "1.0"),
        (ConfigType.DOUBLE, "1e-5", 1e-5, "1.0E-5"),
        (ConfigType.DOUBLE, "0.000125", 0.000125, "1.25E-4"),
        (ConfigType.DOUBLE, "12345678", 12345678.0, "1.2345678E7"),
        (ConfigType.DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308, "1.7976931348623157E308"),
        (ConfigType.LIST, " delete , compact ", ("delete", "compact"), "delete,compact"),
        (ConfigType.LIST, "a,a", ("a",), "a"),
        (ConfigType.LIST, "", (), ""),
        (ConfigType.STRING, " a b ", "a b", "a b"),
    ],
)
def test_values(type: ConfigType, text: str, value: object, shown: str) -> None:
    row = definition(type)
    assert row.parse(text) == value
    assert row.to_text(value) == shown


@pytest.mark.parametrize(
    ("type", "text", "why"),
    [
        (ConfigType.BOOLEAN, "yes", "expected `true` or `false`"),
        (ConfigType.BOOLEAN, "", "expected `true` or `false`"),
        (ConfigType.INT, "", "not a number of type INT"),
        (ConfigType.INT, "1e6", "not a number of type INT"),
        (ConfigType.INT, "1_000", "not a number of type INT"),
        (ConfigType.INT, "٣", "not a number of type INT"),
        (ConfigType.INT, "2147483648", "not a number of type INT"),
        (ConfigType.SHORT, "32768", "not a number of type SHORT"),
        (ConfigType.LONG, "9223372036854775808", "not a number of type LONG"),
        (ConfigType.LONG, "- 5", "not a number of type LONG"),
        (ConfigType.DOUBLE, "nan", "not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "1_0", "not a number of type DOUBLE"),
    ],
)
def test_what_is_no_value(type: ConfigType, text: str, why: str) -> None:
    with pytest.raises(InvalidConfig, match=re.escape(f"invalid value `{text}` for `a.name`: {why}")):
        definition(type).parse(text)


@pytest.mark.parametrize(
    ("row", "good", "bad", "why"),
    [
        (integer("n", 1, "", check=at_least(1)), "1", "0", "must be at least 1"),
        (integer("n", 1, "", check=between(1, 9)), "9", "10", "must be between 1 and 9"),
        (integer("n", 1, "", check=between_or(1, 9, -1)), "-1", "0", "must be between 1 and 9, or -1"),
        (words("n", (), "", check=one_of("a", "b")), "b,a", "a,c", "must be any of a, b"),
    ],
)
def test_checks(row: ConfigDefinition[object], good: str, bad: str, why: str) -> None:
    row.parse(good)
    with pytest.raises(InvalidConfig, match=why):
        row.parse(bad)


@given(st.floats(allow_nan=False))
def test_a_double_reads_back(value: float) -> None:
    row = definition(ConfigType.DOUBLE)
    shown = row.to_text(value)
    assert shown is not None
    assert row.parse(shown) == value
    assert math.isinf(value) or re.fullmatch(r"-?\d+\.\d+(E-?\d+)?", shown)


def test_a_row_in_a_class_reads_as_itself_and_on_an_instance_as_its_value() -> None:
    class Settings:
        is_on = boolean("is.on", True, "")
        limit = optional(integer("limit", 1, ""))

    settings = Settings()
    assert Settings.is_on.name == "is.on"
    assert settings.is_on is True
    assert settings.limit is None
    vars(settings)["limit"] = 5
    assert settings.limit == 5
