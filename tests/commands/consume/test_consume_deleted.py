"""`consume` where the first records to read are deleted.

What is deleted is told of, and it goes on as `auto.offset.reset` says. Beyond the end it says that, too, and
reads nothing where it was to end there.
"""

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


@pytest.mark.parametrize("strategy", ["latest", "earliest"])
def test_an_offset_beyond_the_end_that_is_to_be_read_to(strategy: str, topic: str, kcli: Kcli) -> None:
    arguments = ("consume", topic, "--partition", "0", "-X", f"auto.offset.reset={strategy}")
    told = (
        f"warning: {topic}-0: offset 11 is beyond the end (10): nothing is read, "
        "and the position is not reset\n"
    )
    total = "Processed a total of 0 messages\n"
    for bound in (("--until-end",), ("--to-time", "2000-01-01"), ("--to-time", "2200-01-01")):
        assert kcli(*arguments, *bound, "--offset", "11") == Finished(0, "", told + total)
        assert kcli(*arguments, *bound, "--offset", "10") == Finished(0, "", total)


def test_partitions_that_end_before_the_offset_are_told_of_each(
    new_topic: Callable[[int], str], kcli: Kcli
) -> None:
    topic = new_topic(2)
    assert kcli("produce", topic, "--partition", "1", input=b"a\nb\n").exit_code == 0
    ended = kcli("consume", topic, "--partition", "0,1", "--offset", "1", "--until-end")
    assert ended == Finished(
        0,
        "b\n",
        f"warning: {topic}-0: offset 1 is beyond the end (0): nothing is read, "
        "and the position is not reset\n"
        "Processed a total of 1 messages\n",
    )
