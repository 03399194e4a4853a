"""`consume` where what it was to begin with is deleted: it goes on as `auto.offset.reset` says, and tells."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Finished

Kcli = Callable[..., Finished]


@pytest.fixture
def topic(new_topic: Callable[[int], str], kcli: Kcli) -> str:
    """A new topic, on the broker that commands use by default, that holds ten records."""
    name = new_topic(1)
    assert kcli("produce", name, input=b"".join(b"%d\n" % number for number in range(10))).exit_code == 0
    return name


def delete(kcli: Kcli, topic: str) -> None:
    """Delete six of the ten records."""
    assert kcli("delete-records", f"{topic}:0:6").exit_code == 0


@pytest.mark.parametrize(("strategy", "position"), [("latest", 10), ("earliest", 6)])
def test_an_offset_that_is_deleted(strategy: str, position: int, topic: str, kcli: Kcli) -> None:
    delete(kcli, topic)
    reset = ("-X", f"auto.offset.reset={strategy}")
    ended = kcli("consume", topic, "--partition", "0", "--offset", "1", "--until-end", *reset)
    assert ended.exit_code == 0
    assert ended.err == (
        f"warning: {topic}-0: offset 1 is out of range (6 to 10), going on at {position}\n"
        f"Processed a total of {10 - position} messages\n"
    )
    assert ended.out == "".join(f"{number}\n" for number in range(position, 10))


def test_what_a_group_committed_is_deleted(topic: str, kcli: Kcli) -> None:
    arguments = ("consume", topic, "--group", topic)
    assert kcli(*arguments, "--from-beginning", "--max-messages", "3").out == "0\n1\n2\n"
    delete(kcli, topic)
    warning = f"warning: {topic}-0: offset 3 is out of range (6 to 10), going on at 10\n"
    for told in (warning, ""):
        ended = kcli(*arguments, "--until-end")
        assert ended == Finished(0, "", f"{told}Processed a total of 0 messages\n")
