"""JSON and UTF-8 as Java prints and reads them; the expected values come from Java 17 and Jackson 2.21."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.commands.shared.java import java_json, java_utf8

DOCUMENTS: list[tuple[object, str]] = [
    ({"a": 1, "b": [True, False, None], "c": {}}, '{"a":1,"b":[true,false,null],"c":{}}'),
    ("größe \N{GRINNING FACE} / \x7f", '"größe \N{GRINNING FACE} / \x7f"'),
    ('quote " backslash \\ u001f', '"quote \\" backslash \\\\ u001f"'),
    ("\b\t\n\f\r", '"\\b\\t\\n\\f\\r"'),
    ("\x00\x1f\x0b", '"\\u0000\\u001F\\u000B"'),
    (-(2**63), "-9223372036854775808"),
    (1.0, "1.0"),
    (1e7, "1.0E7"),
    (float("nan"), '"NaN"'),
    (float("-inf"), '"-Infinity"'),
    ((), "[]"),
]


@pytest.mark.parametrize(("document", "expected"), DOCUMENTS, ids=[text for _, text in DOCUMENTS])
def test_a_document_as_jackson_prints_it(document: object, expected: str) -> None:
    assert java_json(document) == expected


scalars = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"))


@given(
    st.recursive(
        scalars,
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
        max_leaves=20,
    )
)
def test_the_text_of_a_document_is_json(document: object) -> None:
    text = java_json(document)
    assert json.loads(text) == document
    assert "\n" not in text


TEXTS = [
    ("", ""),
    ("c3a9", "é"),
    ("f09f9880", "\N{GRINNING FACE}"),
    ("ff41fe", "�A�"),
    ("e282", "�"),
    ("e28241", "�A"),
    ("f09f98", "�"),
    ("c080", "��"),
    ("e08080", "���"),
    ("f4908080", "����"),
    ("eda080", "�"),
    ("eda0", "�"),
    ("eda041", "�A"),
    ("eda080eda0fc", "���"),
]


@pytest.mark.parametrize(("data", "expected"), TEXTS, ids=[data for data, _ in TEXTS])
def test_bytes_as_java_reads_them(data: str, expected: str) -> None:
    assert java_utf8(bytes.fromhex(data)) == expected


@given(st.text(st.characters(codec="utf-8")))
def test_text_comes_back(text: str) -> None:
    assert java_utf8(text.encode()) == text
