"""What executors are asked before tasks are sent to them, and what is said when something is missing."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kcli.errors import KcliError
from kcli.spark.engines.probe import Host, check, probe, question_of
from kcli.spark.engines.session import OpenSession


def test_the_question_finds_what_is_missing(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    ask = question_of(("json", "no_such_module"), (str(tmp_path), gone))
    assert list(ask([])) == [(socket.gethostname(), ("no_such_module",), (gone,))]


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ([Host("b", (), ()), Host("a", ("lz4", "numpy"), ())], "the executors on a lack lz4, numpy"),
        ([Host("a", (), ()), Host("b", (), ("/logs",))], "the executors on b cannot read /logs"),
    ],
)
def test_a_host_that_lacks_something_is_named(hosts: list[Host], message: str) -> None:
    with pytest.raises(KcliError) as caught:
        check(hosts)
    assert caught.value.message == message


def test_executors_are_asked(spark_session: OpenSession, tmp_path: Path) -> None:
    context = spark_session.context
    assert context is not None
    probe(context, [str(tmp_path)])
    with pytest.raises(KcliError, match=f"cannot read {tmp_path}/gone"):
        probe(context, [str(tmp_path), str(tmp_path / "gone")])
