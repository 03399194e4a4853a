"""Input files of commands and their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kcli.commands.shared.input_files import entries_of, parse_json, read_text
from kcli.commands.topics.records import Target, read_targets
from kcli.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def entries(text: str) -> list[object]:
    return list(entries_of(parse_json(text, "f", hint="h"), "f", field="topics", hint="h"))


def test_a_document_without_a_version_is_one_of_version_1() -> None:
    objects = '[{"topic": "a"}, {}]'
    assert entries(f'{{"topics": {objects}}}') == entries(f'{{"version": 1, "topics": {objects}}}')
    assert len(entries(f'{{"topics": {objects}}}')) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "`f` is not JSON: Expecting property name"),
        ("[" * 100_000, "`f` is nested too deeply"),
        ('{"version": 2, "topics": [1]}', "`f` has an unknown version: 2"),
        ('{"version": true, "topics": [1]}', "`f` has an unknown version: true"),
        ("[]", "`f` holds no list of `topics`"),
        ('{"topics": {}}', "`f` holds no list of `topics`"),
        ('{"topics": []}', "`f` holds an empty list of `topics`"),
    ],
)
def test_what_is_no_such_document_is_told_with_a_hint(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        entries(text)
    assert raised.value.message.startswith(message)
    assert raised.value.hint == "h"


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with pytest.raises(UsageError, match=r"cannot read `.*f`: No such file"):
        read_text(path)
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"`.*f` is not UTF-8: invalid start byte"):
        read_text(path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes("\ufeff{}".encode())
    assert read_text(path) == "{}"


def test_truth_values_are_no_partitions_or_offsets(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 5}]}')
    assert read_targets(path) == [Target("t", 0, 5)]
    path.write_text('{"partitions": [{"topic": "t", "partition": true, "offset": 5}]}')
    with pytest.raises(UsageError, match="entry 1: `partition` must be a number, not true"):
        read_targets(path)
