"""The interop client that drives kcat.

produce BOOTSTRAP TOPIC PARTITION:CODEC:ACKS:IDEMPOTENT:FILE ...
consume BOOTSTRAP OUTPUT TOPIC:PARTITION:COUNT ...

kcat sends an empty key or value as null, gives all records of a run the same headers, and prints headers as
text: what it printed is handed on as one header without a name.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.records import TestRecord, decode, encode

DEADLINE_SECONDS = 240.0
RECORD_END = "<<record-end-1c3f>>"
KEY_END = "<<key-end-9b27>>"
# partition, offset, timestamp, key length, value length; then the key, the value, the headers.
FORMAT = f"%p %o %T %K %S\n%k%s%h{RECORD_END}"
RECORD_HEAD = re.compile(rb"(\d+) (\d+) (-?\d+) (-?\d+) (-?\d+)\n")


def produce(bootstrap: str, topic: str, lane: str) -> None:
    """Produce one lane's file."""
    partition, codec, acks, idempotent, path = lane.split(":", 4)
    records = list(decode(Path(path).read_bytes()))
    command = ["kcat", "-P", "-b", bootstrap, "-t", topic, "-p", partition, "-z", codec, "-Z"]
    command += ["-D", RECORD_END, "-K", KEY_END, "-X", f"acks={acks}", "-X", "linger.ms=5"]
    command += ["-X", f"enable.idempotence={'true' if idempotent == '1' else 'false'}"]
    for name, value in records[0].headers:
        command += ["-H", f"{name}={(value or b'').decode()}"]
    text = b"".join(
        (record.key or b"") + KEY_END.encode() + (record.value or b"") + RECORD_END.encode()
        for record in records
    )
    subprocess.run(command, input=text, check=True, timeout=DEADLINE_SECONDS)


def consume(bootstrap: str, output: str, wanted: list[str]) -> None:
    """Read every wanted partition to its count, one kcat for each."""
    records: list[TestRecord] = []
    for slot, argument in enumerate(wanted):
        topic, partition, count = argument.split(":")
        command = ["kcat", "-C", "-q", "-b", bootstrap, "-t", topic, "-p", partition, "-o", "beginning"]
        command += [
            "-c",
            count,
            "-f",
            FORMAT,
            "-X",
            "fetch.wait.max.ms=50",
            "-X",
            "fetch.error.backoff.ms=10",
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=DEADLINE_SECONDS)
        records += parse(slot, done.stdout)
    Path(output).write_bytes(encode(records))


def parse(slot: int, text: bytes) -> list[TestRecord]:
    """The records that kcat printed in FORMAT."""
    records: list[TestRecord] = []
    position = 0
    while position < len(text):
        head = RECORD_HEAD.match(text, position)
        if head is None:
            raise SystemExit(f"unexpected output: {text[position : position + 80]!r}")
        offset, timestamp, key_size, value_size = (int(number) for number in head.groups()[1:])
        key_start = head.end()
        value_start = key_start + max(0, key_size)
        headers_start = value_start + max(0, value_size)
        end = text.index(RECORD_END.encode(), headers_start)
        records.append(
            TestRecord(
                slot,
                offset,
                timestamp,
                None if key_size < 0 else text[key_start:value_start],
                None if value_size < 0 else text[value_start:headers_start],
                (("", text[headers_start:end]),),
            )
        )
        position = end + len(RECORD_END)
    return records


def main(action: str, bootstrap: str, name: str, *rest: str) -> None:
    """Do the action."""
    if action == "produce":
        for lane in rest:
            produce(bootstrap, name, lane)
    elif action == "consume":
        consume(bootstrap, name, list(rest))
    else:
        raise SystemExit(f"kcat cannot {action}")


if __name__ == "__main__":
    main(*sys.argv[1:])
