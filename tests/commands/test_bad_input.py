"""Wrong input: one clear line, perhaps a hint, the right exit code, and no traceback."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcli.commands.usage_hints import SCRIPTS
from tests.conftest import Finished
from tests.support.kcli_broker import KcliBroker
from tests.support.ports import free_port

Kcli = Callable[..., Finished]

LISTENS = "hint: check that the broker runs and listens there, `kcli broker start` starts one\n"


def check(finished: Finished, exit_code: int, *parts: str) -> None:
    """Assert that an error is one line, that a hint may follow, and that nothing was printed as data."""
    first, *rest = finished.err.splitlines()
    assert finished.exit_code == exit_code
    assert finished.out == ""
    assert first.startswith("error: ")
    assert len(rest) <= 1
    assert all(line.startswith("hint: ") for line in rest)
    for part in parts:
        assert part in finished.err


@pytest.mark.parametrize("command", ["topics list", "produce t", "consume t", "cluster id"])
def test_a_broker_that_does_not_run(command: str, kcli: Kcli) -> None:
    address = f"127.0.0.1:{free_port()}"
    check(
        kcli(*command.split(), "-b", address),
        1,
        f"error: cannot connect to {address}: connection refused\n",
        LISTENS,
    )


@pytest.mark.usefixtures("no_name_server")
@pytest.mark.parametrize(
    ("address", "exit_code", "message"),
    [
        ("no-such-host.invalid:9092", 1, "unknown host: no-such-host.invalid"),
        ("localhost:port", 2, "localhost:port"),
        ("localhost:99999", 2, "localhost:99999"),
        ("", 2, "bootstrap"),
        (",", 2, "bootstrap"),
    ],
)
def test_an_address_that_is_none(address: str, exit_code: int, message: str, kcli: Kcli) -> None:
    check(kcli("topics", "list", "-b", address), exit_code, message)


@contextmanager
def server(answer: bytes | None) -> Iterator[str]:
    """Run a server that answers the first bytes of a connection, or closes it at once if `answer` is None."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    if answer is not None:
                        connection.recv(4096)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="http"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2p1\r\n", id="ssh"),
        pytest.param(b"\x15\x03\x01\x00\x02\x02\x46", id="tls alert"),
        pytest.param(b"\x00\x00\x00\x04\x00\x00\x00\x00", id="an empty answer"),
        pytest.param(None, id="closes"),
    ],
)
def test_a_port_where_something_else_listens(answer: bytes | None, kcli: Kcli) -> None:
    with server(answer) as address:
        finished = kcli(
            "topics",
            "list",
            "-b",
            address,
            "-X",
            "default.api.timeout.ms=3000",
            "-X",
            "request.timeout.ms=1000",
        )
        check(finished, 1, address)


def test_a_port_that_is_silent(kcli: Kcli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        finished = kcli("topics", "list", "-b", address, "-X", "socket.connection.setup.timeout.ms=200")
        check(finished, 1, address)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("topics describe nothing", "topic `nothing` does not exist"),
        ("topics delete nothing", "topic `nothing` does not exist"),
        ("topics alter nothing --partitions 3", "topic `nothing` does not exist"),
        ("consume nothing", "topic `nothing` does not exist"),
        ("consume present --partition 9", "topic `present` has no partition 9, it has 1\nhint: the first "),
        ("consume --include nothing.*", "no topic matches nothing.*"),
        ("configs describe --topic nothing", "cannot describe the configuration of topic nothing"),
        ("configs describe --broker 77", "broker 77 is not in the cluster"),
        ("get-offsets nothing", "topic `nothing` does not exist"),
        ("log-dirs describe --broker-list 9", "there is no broker 9"),
        ("topics create present", "topic `present` already exists"),
        ("topics create wide --replication-factor 3", "cannot create topic `wide`: "),
        ("topics create wide --replica-assignment 1:2", "cannot create topic `wide`: "),
        (
            "topics create t --config no.such.name=1",
            "cannot create topic `t`: unknown topic config name: no.such.name\n"
            "hint: `kcli configs describe TOPIC --all` of any topic that exists shows the names\n",
        ),
        ("topics create t --config retention.ms=soon", "cannot create topic `t`: "),
        (
            "topics create t --config cleanup.policy=burn",
            "cannot create topic `t`: invalid value `burn` for `cleanup.policy`: "
            "must be any of compact, delete\n",
        ),
        *(
            (
                f"{command} --config cleanup.policy=compact,retention.ms=1",
                f"{error}: invalid value `compact,retention.ms=1` for `cleanup.policy`: "
                "must be any of compact, delete\n"
                "hint: repeat `--config` for each: --config cleanup.policy=compact --config retention.ms=1\n",
            )
            for command, error in (
                ("topics create t", "cannot create topic `t`"),
                ("topics alter present", "cannot alter the configuration of topic `present`"),
            )
        ),
        ("topics create a/b", "cannot create topic `a/b`: "),
        ("topics create ..", "cannot create topic `..`: "),
        (f"topics create {'x' * 250}", "cannot create topic `xxx"),
        (
            "configs alter --topic present --add no.such.name=1",
            "cannot alter the configuration of topic present",
        ),
        (
            "configs alter --topic present --add retention.ms=x",
            "cannot alter the configuration of topic present",
        ),
        (
            "cluster unregister 1",
            "cannot unregister broker 1: it is the only broker that runs\nhint: it is the whole cluster: ",
        ),
        (
            "topics create wide -r 3",
            "cannot create topic `wide`: a replication factor of 3 needs as many brokers; registered: 1\n",
        ),
        ("configs alter --broker 1 --add no.such.name=1", "cannot alter the configuration of broker 1"),
    ],
)
def test_what_the_cluster_refuses(command: str, message: str, live: Kcli) -> None:
    live("topics", "create", "present", "--if-not-exists", "--force")
    arguments = [*command.split(), "--force"] if command.startswith("topics create") else command.split()
    if "alter nothing" in command:
        arguments.append("--force")
    check(live(*arguments), 1, f"error: {message}")


@pytest.mark.parametrize(
    ("entity", "name", "told"),
    [
        (
            "--broker 1",
            "no.such.name",
            "broker 1: unknown broker config name: no.such.name\n"
            "hint: `kcli configs describe --broker 1 --all` shows the names and values\n",
        ),
        (
            "--broker-defaults",
            "no.such.name",
            "the default of all brokers: unknown broker config name: no.such.name\n"
            "hint: `kcli configs describe --broker ID --all` shows the names and values\n",
        ),
        (
            "--broker 1",
            "sasl.kerberos.service.name",
            "broker 1: `sasl.kerberos.service.name` is a security configuration that kcli does not act on\n",
        ),
    ],
)
def test_no_other_name_is_hinted_at_for_what_kcli_does_not_act_on(
    entity: str, name: str, told: str, live: Kcli
) -> None:
    finished = live("configs", "alter", *entity.split(), "--add", f"{name}=1")
    assert finished.exit_code == 1
    assert finished.err == f"error: cannot alter the configuration of {told}"


@pytest.mark.parametrize("entity", ["--broker 1", "--broker-defaults"])
def test_what_is_stored_without_effect_is_one_warning(entity: str, live: Kcli) -> None:
    added = "--add", "num.io.threads=10,max.connections=1000,num.network.threads=5"
    finished = live("configs", "alter", *entity.split(), *added)
    assert finished.exit_code == 0
    assert finished.err == "warning: `num.io.threads`, `num.network.threads` have no effect in kcli\n"
    shown = live("configs", "describe", *entity.split())
    assert "num.io.threads=10 sensitive=false synonyms={DYNAMIC_" in shown.out
    assert "No effect" not in shown.out
    for form in ("text", "json", "table"):
        told = live("configs", "describe", *entity.split(), "--documentation", "-o", form).out
        assert "No effect in kcli." in " ".join(told.split()), form
    finished = live("configs", "alter", *entity.split(), "--delete", "num.io.threads,num.network.threads")
    assert (finished.exit_code, finished.err) == (0, "")
    assert live("configs", "alter", *entity.split(), "--delete", "max.connections").exit_code == 0


def test_the_records_of_a_compacted_topic_need_keys(live: Kcli) -> None:
    create = "topics", "create", "compacted-1", "compacted-2"
    finished = live(*create, "-c", "cleanup.policy=compact", "-c", "min.compaction.lag.ms=1")
    assert (finished.exit_code, finished.err) == (0, "")
    alter = "configs", "alter", "compacted-1"
    assert live(*alter, "--append", "cleanup.policy=delete").err == ""
    assert live(*alter, "--add", "local.retention.ms=7").err == (
        "warning: `local.retention.ms` has no effect in kcli\n"
    )

    finished = live("produce", "compacted-2", input=b"no key\n")
    assert finished.exit_code == 1
    assert finished.err == (
        "error: 1 of 1 records were not delivered: a record of a compacted topic needs a key\n"
        "hint: `--reader-property parse.key=true` takes the key from the line, before a tab\n"
    )
    for name in ("compacted-1", "compacted-2"):
        live("topics", "delete", name)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("consume", "exactly one of `TOPIC` and `--include` must be given"),
        ("consume a --include b", "exactly one of `TOPIC` and `--include` must be given"),
        (
            "consume a --offset 5",
            "`--offset` needs `--partition`\nhint: `--from-beginning` and `--from-time` apply to all ",
        ),
        ("consume a --partition 0 --offset five", "`--offset` cannot be five"),
        ("consume a --partition 0 --offset 9223372036854775808", "`--offset` cannot be 9223372036854775808"),
        ("consume a --partition zero", "`--partition` needs numbers"),
        ("consume a --partition=", "`--partition` cannot be empty"),
        ("consume a --partition ,", "`--partition` cannot be empty"),
        ("consume a --partition= --partition 0", "`--partition` cannot be empty"),
        (
            "produce a --partition 0 --partition 1",
            "`--partition` names several: 0, 1\nhint: all records go to one partition, or without ",
        ),
        ("consume --include a --partition 0", "`--partition` needs `TOPIC`"),
        ("log-dirs describe --topic-list=", "`--topic-list` cannot be empty"),
        ("consume a --from-beginning --from-time 0", "exclude each other"),
        ("consume a --from-beginning -X auto.offset.reset=latest", "contradicts `auto.offset.reset`: latest"),
        ("consume a --from-time yesterday", "`--from-time` cannot be yesterday"),
        ("consume a --group g --partition 0", "`--group` and `--partition` exclude each other"),
        ("consume a --group g -X group.id=h", "`--group` contradicts `group.id`: g and h"),
        ("consume a --group g --from-time 0", "`--from-time` has no meaning in a group"),
        ("consume a --group=", "`--group` cannot be empty\nhint: without `--group` it reads alone\n"),
        (
            "preferred-replica-election --topic a",
            "`--topic` and `--partition` need each other\nhint: TOPIC:PARTITION names one partition\n",
        ),
        ("consume a --group g -X group.protocol=streams", "invalid value for `group.protocol`: streams"),
        (
            "consume a --group g -X group.protocol=consumer -X session.timeout.ms=6000",
            "`session.timeout.ms` cannot be set with `group.protocol` consumer",
        ),
        (
            "consume a --group g -X group.remote.assignor=range",
            "`group.remote.assignor` cannot be set with `group.protocol` classic",
        ),
        ("consume a --group g -X partition.assignment.strategy=fair", "there is no assignor `fair`"),
        (
            "consume a --group g -X session.timeout.ms=3000",
            "`heartbeat.interval.ms` must be less than `session.timeout.ms`: 3000 >= 3000",
        ),
        ("consume a --formatter xml", "there is no formatter `xml`"),
        ("consume a --formatter-property print.everything=true", "there is no formatter property"),
        ("consume a --value-deserializer json", "there is no deserializer `json`"),
        (
            "consume a -X exclude.internal.topics=no",
            "error: invalid value for `exclude.internal.topics`: no\nhint: use true or false\n",
        ),
        ("consume a -X auto.offset.reset=middle", "auto.offset.reset"),
        ("produce", "missing argument `TOPIC`"),
        ("produce a /no/such/file", "cannot read `/no/such/file`: No such file or directory"),
        ("produce a /", "cannot read `/`: it is a directory"),
        ("produce a --acks 2", "invalid value for `acks`: 2"),
        ("produce a --acks 1 --idempotence", "an idempotent producer needs `acks` all: 1"),
        ("produce a --reader-property parse.key", "`--reader-property` needs name=value: parse.key"),
        (
            "produce a --reader-property parse.key=maybe",
            "error: invalid value for `parse.key`: maybe\nhint: use true or false\n",
        ),
        (
            "consume a --formatter-property print.key=ja",
            "error: invalid value for `print.key`: ja\nhint: use true or false\n",
        ),
        ("produce a --line-reader Mine", "there is no line reader `Mine`"),
        (
            "topics list --command-config /no/such/file",
            "cannot read `/no/such/file`: No such file or directory",
        ),
        ("topics list -X request.timeout.ms=soon", "invalid value for `request.timeout.ms`: soon"),
        ("topics list -X nonsense", "`--command-property` needs name=value: nonsense"),
        (
            "topics create t --config retention.ms=7d,cleanup.policy=compact",
            "error: not a number with a unit: `retention.ms=7d,cleanup.policy=compact`\n"
            "hint: repeat `--config` for each: --config retention.ms=7d --config cleanup.policy=compact\n",
        ),
    ],
)
def test_wrong_usage(command: str, message: str, kcli: Kcli) -> None:
    check(kcli(*command.split()), 2, message)


def test_a_property_that_nobody_knows_is_a_warning(live: Kcli) -> None:
    finished = live("cluster", "id", "-X", "request.timeout.sm=1")
    assert finished.exit_code == 0
    assert (
        finished.err == "warning: unknown property `request.timeout.sm`, did you mean `request.timeout.ms`?\n"
    )


def test_a_topic_that_the_broker_does_not_create(tmp_path: Path, kcli: Kcli) -> None:
    broker = KcliBroker(tmp_path, settings={"auto.create.topics.enable": "false"}).start()
    try:
        finished = kcli("produce", "nothing", "-b", broker.bootstrap, input=b"line\n")
        check(
            finished, 1, "topic `nothing` does not exist, and the broker does not create it", "topics create"
        )
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("cluster cluster-id", "kcli cluster id"),
        ("cluster list-endpoints", "kcli cluster nodes"),
        ("kafka-broker-api-versions.sh", "kcli cluster api-versions"),
        ("bin/kafka-topics.sh --list", "kcli topics"),
        ("kafka-leader-election --election-type preferred", "kcli preferred-replica-election"),
        ("leader-election", "kcli preferred-replica-election"),
        ("kafka-log-dirs.sh --describe", "kcli log-dirs"),
        ("kafka-console-consumer --topic orders", "kcli consume"),
        ("kafka-storage format", "`kcli broker start` formats its directories by itself"),
        ("kafka-features describe", "kcli has no such command; Kafka's own tool works with a kcli broker"),
        ("metadata-quorum describe", "kcli has no such command; Kafka's own tool works with a kcli broker"),
        ("no-such-command", "kcli --help"),
        ("no-such-command storage", "kcli --help"),
        ("cluster no-such-verb", "kcli cluster --help"),
    ],
)
def test_names_of_kafkas_scripts(line: str, hint: str, kcli: Kcli) -> None:
    check(kcli(*line.split()), 2, "error: no such command", f"hint: {hint}")


@pytest.mark.parametrize("script", [*SCRIPTS])
def test_commands_in_place_of_scripts_exist(script: str, kcli: Kcli) -> None:
    assert kcli(*SCRIPTS[script].removeprefix("kcli ").split(), "--help").exit_code == 0


@pytest.mark.parametrize("command", [["topics", "describe"], ["dump-log"], ["broker", "start", "--data-dir"]])
def test_an_argument_that_is_not_text(command: list[str]) -> None:
    line = [sys.executable, "-m", "kcli", *command, b"gr\xfcn"]
    done = subprocess.run(line, capture_output=True, check=False)
    assert done.returncode == 2
    assert (done.stdout, done.stderr) == (
        b"",
        f"error: argument {len(command) + 1} is not UTF-8: gr\\xfcn\n".encode(),
    )


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("topics", "create"), "topic"),
        (("topics", "create", "--topic"), "topic"),
        (("topics", "create", "orders"), "topic"),
        (("topics", "list"), "topic"),
        (("topics", "describe"), "topic"),
        (("topics", "alter"), "topic"),
        (("topics", "delete"), "topic"),
        (("produce",), "topic"),
        (("consume",), "topic"),
        (("get-offsets",), "topic"),
        (("configs", "describe"), "topic"),
        (("configs", "alter"), "topic"),
        (("configs", "describe", "--group"), "group"),
        (("delete-records",), "topic"),
        (("reassign-partitions", "generate", "--drain", "1"), "topic"),
        (("preferred-replica-election",), "topic"),
        (("log-dirs", "move", "--broker", "1", "--to", "/d"), "topic"),
        (("consumer-groups", "describe"), "group"),
        (("consumer-groups", "delete"), "group"),
        (("consumer-groups", "members"), "group"),
        (("consumer-groups", "remove-members"), "group"),
        (("consumer-groups", "delete-offsets"), "group"),
        (("consumer-groups", "reset-offsets", "--to-earliest", "--all-topics"), "group"),
        (("consumer-groups", "clone", "old"), "group"),
    ],
    ids=str,
)
def test_a_name_without_characters(command: tuple[str, ...], what: str, kcli: Kcli) -> None:
    check(kcli(*command, "", "-b", "127.0.0.1:1"), 2, f"error: the {what} name is empty\n")
