"""No command lets the text of strangers control a terminal: every command, on a terminal and in a pipe.

The strangers' text is in records, groups, transactional ids, member ids, client ids, quotas, file names, and
in names that the broker or the command repeats in its error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from confluent_kafka import Consumer, Producer

from kcli.cli import build_app, main
from tests.conftest import Finished
from tests.support.kcli_broker import KcliBroker
from tests.support.terminal import Terminal

EVIL = "\x1b[31m\x9b2J\x7f\u202eevil\x07"
"""A colour, a clear screen of the C1 set, DEL, an override of the direction of writing, and a bell."""

BAD_BYTES = b"\x9b31m\xff\x1bP"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\udc80-\udcff]")
"""What no terminal may get: all but line feeds and tabs."""

ESCAPED = "\\x1b[31m"


class Strangers(NamedTuple):
    """A broker with hostile records and groups, and a copy of its directory with a hostile name."""

    broker: KcliBroker
    files: Path


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    """A broker whose topic, groups and quotas strangers have filled, and hostile files."""
    directory = tmp_path_factory.mktemp("strangers")
    broker = KcliBroker(directory, settings={"log.retention.ms": "-1"})
    broker.start()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    headers = [(EVIL, EVIL.encode()), ("bytes", BAD_BYTES)]
    producer.produce(
        "records", key=EVIL.encode(), value=EVIL.encode(), headers=headers, timestamp=1_700_000_000_000
    )
    producer.produce("records", key=BAD_BYTES, value=BAD_BYTES, timestamp=1_700_000_000_000)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": EVIL,
            "client.id": EVIL,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["records"])
    message = None
    while message is None:
        message = consumer.poll(30)
    consumer.commit(message, asynchronous=False)
    transactional = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": EVIL})
    transactional.init_transactions(30)
    hostile = directory / f"log-{EVIL}"
    (hostile / "records-0").mkdir(parents=True)
    log = (broker.node_directory / "records-0" / f"{0:020}.log").read_bytes()
    (hostile / "records-0" / f"{0:020}.log").write_bytes(log + b"torn" * 20)
    (hostile / "records-0" / f"{0:020}.index").write_bytes(bytes(4) + b"\xff" * 4)
    (hostile / f"file-{EVIL}").write_bytes(b"{")
    try:
        yield Strangers(broker, hostile)
    finally:
        consumer.close()
        assert broker.stop() == 0


COMMANDS: dict[str, str] = {
    "broker start": "broker start --override {evil}=1",
    "broker stop": "broker stop --data-dir {evil}",
    "broker status": "broker status --data-dir {evil}",
    "broker requests": "broker requests --data-dir {evil}",
    "broker compact": "broker compact {evil} --data-dir {data}",
    "broker node list": "broker node list --data-dir {evil}",
    "broker node stop": "broker node stop 1 --data-dir {evil}",
    "broker node kill": "broker node kill 1 --data-dir {evil}",
    "broker node start": "broker node start 1 --data-dir {evil}",
    "broker node pause": "broker node pause 1 --data-dir {evil}",
    "broker node resume": "broker node resume 1 --data-dir {evil}",
    "broker node add": "broker node add --data-dir {evil}",
    "broker node remove": "broker node remove 1 --data-dir {evil}",
    "broker fault list": "broker fault list --data-dir {evil}",
    "broker fault add": "broker fault add error --api {evil} --code NONE --data-dir {data}",
    "broker fault clear": "broker fault clear {evil} --data-dir {data}",
    "broker fault move-leader": "broker fault move-leader {evil} 0 1 --data-dir {data}",
    "broker fault move-coordinator": "broker fault move-coordinator {evil} 1 --data-dir {data}",
    "broker fault move-controller": "broker fault move-controller {evil} --data-dir {data}",
    "topics create": "topics create {evil}",
    "topics list": "topics list --topic {evil}(",
    "topics describe": "topics describe {evil}",
    "topics alter": "topics alter {evil} --partitions 2",
    "topics delete": "topics delete {evil}",
    "configs describe": "configs describe --client {evil}",
    "configs alter": "configs alter records --add {evil}=1",
    "produce": "produce {evil}",
    "consume": "consume records --from-beginning --until-end --formatter-property print.key=true "
    "--formatter-property print.headers=true",
    "consumer-groups list": "consumer-groups list",
    "consumer-groups describe": "consumer-groups describe --all-groups",
    "consumer-groups reset-offsets": "consumer-groups reset-offsets {evil} --to-latest --all-topics",
    "consumer-groups delete": "consumer-groups delete {evil}",
    "consumer-groups delete-offsets": "consumer-groups delete-offsets {evil} --topic records",
    "consumer-groups members": "consumer-groups members {evil}",
    "consumer-groups remove-members": "consumer-groups remove-members {evil} --member-id {evil}",
    "consumer-groups clone": "consumer-groups clone {evil} {evil}2",
    "consumer-groups validate-regex": "consumer-groups validate-regex {evil}(",
    "transactions list": "transactions list",
    "transactions describe": "transactions describe {evil}",
    "transactions describe-producers": "transactions describe-producers {evil}:0",
    "transactions find-hanging": "transactions find-hanging --topic {evil}",
    "transactions abort": "transactions abort {evil}:0 --start-offset 0",
    "transactions force-terminate": "transactions force-terminate {evil}2",
    "get-offsets": "get-offsets {evil}",
    "delete-records": "delete-records {evil}:0:1",
    "reassign-partitions generate": "reassign-partitions generate --topics-to-move-json-file {file} "
    "--broker-list 1",
    "reassign-partitions execute": "reassign-partitions execute {file}",
    "reassign-partitions verify": "reassign-partitions verify {file}",
    "reassign-partitions list": "reassign-partitions list -b {evil}:x",
    "reassign-partitions cancel": "reassign-partitions cancel {file}",
    "preferred-replica-election": "preferred-replica-election --topic {evil} --partition 0",
    "dump-log": "dump-log {files} --print-data-log --continue",
    "verify-index": "verify-index {files}",
    "spark-export": "spark-export {evil} --to {files}/lake --engine local",
    "spark-import": "spark-import {evil} --topic again",
    "log-dirs describe": "log-dirs describe --topic-list {evil} -b {evil}:x",
    "log-dirs move": "log-dirs move {evil}:0 --to /{evil} --broker 1",
    "cluster id": "cluster id -b {evil}:x",
    "cluster nodes": "cluster nodes -b {evil}:x",
    "cluster unregister": "cluster unregister {evil}",
    "cluster api-versions": "cluster api-versions -b {evil}:x",
    "acls add": "acls add --allow-principal {evil} --topic {evil}",
    "acls remove": "acls remove --allow-principal {evil} --topic {evil}",
    "acls list": "acls list --topic {evil} -b {evil}:x",
    "acls explain": "acls explain --principal User:{evil} --operation {evil} --topic {evil}",
    "acls denials": "acls denials --data-dir {evil}",
    "users list": "users list {evil}",
    "users create": "users create {evil} --password-file {file}",
    "users delete": "users delete {evil}",
    "tls show": "tls show {evil}",
    "tls client-cert": "tls client-cert CN=alice --data-dir {evil}",
    "tls reload": "tls reload --data-dir {evil}",
    "completion": "completion {evil}",
}
"""A line for each command that makes it show strangers' text; every command has one."""

MORE = [
    "consume records --from-beginning --until-end --formatter logging",
    "consume records --from-beginning --until-end --formatter json",
    "consume __consumer_offsets --from-beginning --until-end --formatter offsets",
    "consume __consumer_offsets --from-beginning --until-end --formatter group-metadata",
    "consume records --from-beginning --until-end --key-deserializer int",
    "consume __transaction_state --from-beginning --until-end --formatter transaction-log",
    "produce records --transactional-id {evil} -X acks={evil}",
    "consumer-groups describe {evil} --members --verbose",
    "consumer-groups describe {evil} --state",
    "consumer-groups list --log-dir {node}",
    "consumer-groups describe --all-groups --log-dir {node}",
    "configs alter --client {evil} --add producer_byte_rate=1000",
    "configs describe --client {evil}",
    "dump-log {files} --summary",
    "dump-log {node} --topic __consumer_offsets --offsets-decoder",
    "dump-log {node} --topic __cluster_metadata --cluster-metadata-decoder",
    "dump-log {files}/file-{evil}",
    "verify-index {files} --deep",
    "topics list -b {evil}:x --verbose",
    "topics {evil}",
    "{evil}",
    "topics list --{evil}",
]


def leaves(command: Any, path: str) -> Iterator[str]:
    verbs = getattr(command, "commands", None)
    if verbs is None:
        yield path.strip()
        return
    for name, verb in verbs.items():
        yield from leaves(verb, f"{path} {name}")


def test_every_command_has_a_hostile_line() -> None:
    assert {*leaves(typer.main.get_command(build_app()), "")} == {*COMMANDS}


def words(line: str, strangers: Strangers) -> list[str]:
    """The words of a line, with the strangers' text in them."""
    places = {
        "evil": EVIL,
        "data": str(strangers.broker.data),
        "node": str(strangers.broker.node_directory),
        "files": str(strangers.files),
        "file": str(strangers.files / f"file-{EVIL}"),
    }
    return [word.format(**places) for word in line.split()]


@pytest.fixture
def on_terminal(strangers: Strangers, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], str]:
    """Run a command line on a terminal without colours, and return what that got."""
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", strangers.broker.bootstrap)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.chdir(strangers.files.parent)

    def run(line: list[str]) -> str:
        with Terminal() as terminal:
            main(line)
        return terminal.shown.decode("utf-8", "surrogateescape")

    return run


ALL_LINES = [*COMMANDS.values(), *MORE]


@pytest.mark.parametrize("line", ALL_LINES)
def test_a_terminal_is_shown_escapes(
    line: str, on_terminal: Callable[[list[str]], str], strangers: Strangers
) -> None:
    shown = ""
    for form in ([], ["-o", "text"], ["-o", "json"]):
        got = on_terminal([*words(line, strangers), *form])
        assert not UNSAFE.search(got), (form, got)
        shown += got
    assert ESCAPED in shown or "\\u001b[31m" in shown.lower(), shown


@pytest.mark.parametrize("line", ALL_LINES)
def test_tables_and_messages_in_a_pipe_are_escaped(
    line: str, kcli: Callable[..., Finished], strangers: Strangers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", strangers.broker.bootstrap)
    monkeypatch.chdir(strangers.files.parent)
    is_stream = line.startswith("consume ")  # it has no table
    finished = kcli(*words(line, strangers), "-o", "table")
    assert not UNSAFE.search(finished.err)
    assert is_stream or not UNSAFE.search(finished.out)


def test_raw_gives_a_terminal_the_bytes_of_the_records(
    on_terminal: Callable[[list[str]], str], strangers: Strangers
) -> None:
    consumed = on_terminal(words("consume records --from-beginning --until-end --raw", strangers))
    assert EVIL in consumed
    assert os.fsdecode(BAD_BYTES) in consumed
    dumped = on_terminal(words("dump-log {files} --print-data-log --raw", strangers))
    assert f"payload: {EVIL}" in dumped
    refused = on_terminal(words("dump-log {files} --raw -o table", strangers))
    assert refused.startswith("error: a table is never raw")


def test_a_pipe_gets_the_bytes_of_the_records(kcli: Callable[..., Finished], strangers: Strangers) -> None:
    finished = kcli(
        "consume", "records", "--from-beginning", "--max-messages", "1", "-b", strangers.broker.bootstrap
    )
    assert finished.out == f"{EVIL}\n"
