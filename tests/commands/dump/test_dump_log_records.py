"""`dump-log`: which records are shown, and how their keys and values are decoded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Transcript
from tests.commands.dump.dumped_replicas import Kcli, objects, orders, records
from tests.support.log_files import batch_of, consumer_members, quorum, segment, write_internal_topics

FILTERS: list[tuple[str, tuple[str, ...], list[int]]] = [
    ("from an offset on", ("--from-offset", "3"), [3, 4, 5, 6, 7, 8, 12, 13]),
    ("before an offset", ("--to-offset", "2"), [0, 1]),
    ("a range of offsets", ("--from-offset", "2", "--to-offset", "6"), [2, 3, 4, 5]),
    ("from a time on", ("--from-time", "1700000000140"), [2, 4, 7]),
    ("before a time", ("--to-time", "2023-11-14T22:13:20.000Z"), [1, 6, 13]),
    ("a key", ("--key", "a"), [0, 2, 5, 7, 12]),
    ("a key in hexadecimal", ("--key", "hex:62"), [1, 6, 13]),
    ("a key in base64", ("--key", "base64:Yg=="), [1, 6, 13]),
    ("no such key", ("--key", "z"), []),
    ("a producer", ("--producer-id", "7"), [0, 1, 2, 3, 4, 12, 13]),
    ("control records", ("--control-only",), [4]),
    ("transactions", ("--transactional-only", "--from-offset", "4"), [4, 12, 13]),
]


@pytest.mark.parametrize(("flags", "expected"), [row[1:] for row in FILTERS], ids=[row[0] for row in FILTERS])
def test_filters(here: Path, kcli: Kcli, flags: tuple[str, ...], expected: list[int]) -> None:
    orders(here)
    finished = kcli("dump-log", "orders-0", "--kind", "log", "-o", "json", "--deep-iteration", *flags)
    assert records(finished) == expected
    assert finished.exit_code == 0
    text = kcli("dump-log", "orders-0", "--kind", "log", "-o", "text", "--print-data-log", *flags)
    shown = [int(line.split()[2]) for line in text.out.splitlines() if line.startswith("| offset:")]
    assert shown == expected
    assert text.err == ""


def test_filters_choose_batches_where_no_records_are_shown(here: Path, kcli: Kcli) -> None:
    orders(here)
    shown = kcli("dump-log", "orders-0", "--kind", "log", "-o", "json", "--key", "b", "--from-offset", "5")
    assert [each["base_offset"] for each in objects(shown) if each["type"] == "batch"] == [5, 12]


DECODERS: list[tuple[str, str, object]] = [
    ("string", "string", "\x00\x00\x00\x2a"),
    ("hex", "hex", "0000002a"),
    ("base64", "base64", "AAAAKg=="),
    ("int", "int", 42),
    ("a class of Kafka", "org.apache.kafka.tools.api.IntegerDecoder", 42),
    ("an older class of Kafka", "kafka.serializer.DefaultDecoder", "0000002a"),
    ("a function", "python:decoding.size", {"size": 4}),
    ("what it is not", "long", {"error": "4 bytes, not 8", "base64": "AAAAKg=="}),
    ("a function that fails", "python:decoding.fail", {"error": "no", "base64": "AAAAKg=="}),
]


@pytest.mark.parametrize(
    ("name", "expected"), [row[1:] for row in DECODERS], ids=[row[0] for row in DECODERS]
)
def test_decoders(
    here: Path, kcli: Kcli, monkeypatch: pytest.MonkeyPatch, name: str, expected: object
) -> None:
    (here / "decoding.py").write_text(
        "def size(data):\n    return {'size': len(data)}\n\n\ndef fail(data):\n    raise RuntimeError('no')\n"
    )
    monkeypatch.syspath_prepend(str(here))
    segment(here / "x-0", [batch_of([(b"key", b"\x00\x00\x00\x2a")])])
    finished = kcli("dump-log", "x-0", "-o", "json", "--value-decoder", name)
    (record,) = (each for each in objects(finished) if each["type"] == "record")
    assert record["key"] == "key"
    assert record["value"] == expected
    failed = isinstance(expected, dict) and "error" in expected
    assert finished.exit_code == (1 if failed else 0)
    assert ("the decoder cannot read 1 value" in finished.err) == failed
    text = kcli("dump-log", "x-0", "-o", "text", "--skip-record-metadata", "--value-decoder-class", name)
    shown = expected if isinstance(expected, str) else json.dumps(expected, separators=(",", ":"))
    assert f"| key: key payload: {shown}\n" in text.out


def test_json_values_are_documents(here: Path, kcli: Kcli) -> None:
    segment(here / "x-0", [batch_of([(None, b'{"a": [1, "\xc3\xa9"]}')])])
    shown = kcli("dump-log", "x-0", "-o", "json", "--value-decoder", "json")
    assert objects(shown)[-1]["value"] == {"a": [1, "é"]}
    text = kcli("dump-log", "x-0", "-o", "text", "--value-decoder", "json", "--skip-record-metadata")
    assert text.out.splitlines()[-1] == '| payload: {"a":[1,"é"]}'


def test_internal_topics(here: Path, transcript: Transcript) -> None:
    directories = write_internal_topics(here)
    segment(here / "groups-0", [batch_of(consumer_members())])
    segment(here / "quorum-0", quorum())
    transcript(
        "dump_log_internal_topics",
        *(
            f"dump-log {path.parent.name} {option} --skip-record-metadata -o text --to-offset 6"
            for option, path in directories.items()
        ),
        "dump-log groups-0 --offsets-decoder -o json --to-offset 2",
        "dump-log __cluster_metadata-0 --cluster-metadata-decoder -o json --to-offset 1",
        "dump-log __remote_log_metadata-0 --remote-log-metadata-decoder -o json --to-offset 1",
        "dump-log quorum-0 --print-data-log -o json --control-only",
    )


def test_a_short_key_is_told_in_the_words_of_kafka(here: Path, kcli: Kcli) -> None:
    segment(here / "x-0", [batch_of([(b"\0\0\0\1", b"x"), (b"\0", b"x")])])
    shown = kcli("dump-log", "x-0", "--offsets-decoder", "-o", "text")
    assert [line.partition(" key: ")[2] for line in shown.out.splitlines()[-2:]] == [
        "Error at offset 0, skipping. Could not read record with version 0 from key's buffer due to: "
        "Error reading byte array of 1 byte(s): only 0 byte(s) available.",
        "Error at offset 1, skipping. Could not read version from key's buffer.",
    ]


def test_records_from_the_future_and_damaged_ones_are_shown_raw(here: Path, kcli: Kcli) -> None:
    segment(
        here / "x-0",
        [batch_of([(b"\0\x63k", b"v"), (b"\0\2\0", b"v"), (None, b"v"), (b"\0\2\0\1g", b"\0\x09")])],
    )
    shown = kcli("dump-log", "x-0", "--offsets-decoder", "-o", "json")
    keys = [each["key"] for each in objects(shown) if each["type"] == "record"]
    assert [key["note"].split(":")[0] for key in keys] == [
        "a coordinator's record of unknown type",
        "Could not read record with version 2 from key's buffer due to",
        "a record without a key",
        "Found an unknown record version 9 for 2 type",
    ]
    assert keys[0]["raw"] == "\0ck"
    assert shown.exit_code == 1
    assert "the decoder cannot read 2 values" in shown.err
