"""`-o json`: a result is one object, records are one a line, and fields are named like variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands.dump.dumped_replicas import Kcli, objects
from tests.conftest import GOLDEN

TRANSCRIPTS = [
    path for path in sorted((GOLDEN / "cli").glob("*.txt")) if "-o json" in path.read_text("utf-8")
]
FIELD = re.compile("[a-z][a-z0-9_]*")
HOLD_OTHER_NAMES = {"configs", "data", "control_records", "formats"}
"""The fields inside of these have Kafka's names, or numbers."""


def results(transcript: Path) -> Iterator[tuple[str, Any]]:
    """The lines of JSON in a golden, each with its command."""
    command = ""
    for line in transcript.read_text(encoding="utf-8").splitlines():
        if line.startswith("$ "):
            command = line
        elif "-o json" in command and re.match(r"\{|\[(?!exit )", line):
            yield command, json.loads(line)


def fields(value: object) -> Iterator[str]:
    """The names of all fields outside of `HOLD_OTHER_NAMES`."""
    match value:
        case dict():
            for name, held in value.items():
                yield name
                if name not in HOLD_OTHER_NAMES:
                    yield from fields(held)
        case list():
            for held in value:
                yield from fields(held)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_results_are_objects_whose_fields_have_plain_names(transcript: Path) -> None:
    for command, result in results(transcript):
        assert isinstance(result, dict), command
        assert [name for name in fields(result) if not FIELD.fullmatch(name)] == [], command


def test_kinds_of_findings_are_objects_whose_fields_have_plain_names(kcli: Kcli) -> None:
    explained = objects(kcli("verify-index", "--explain", "-o", "json"))
    assert {tuple(each) for each in explained} == {("kind", "severity", "meaning", "advice")}
