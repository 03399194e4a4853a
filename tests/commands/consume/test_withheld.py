"""Records behind an open transaction: a reader with read_committed is told that they are there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcli.client import admin
from kcli.commands.consume.withheld import note_withheld, withheld
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.conftest import Finished

P0, P1, P2 = (admin.TopicPartition("orders", index) for index in range(3))


@pytest.mark.parametrize("group", [(), ("--group", "withheld")])
def test_they_are_counted_at_the_end(
    group: tuple[str, ...], live: Callable[..., Finished], hanging_topic: str
) -> None:
    """Not for who reads them, and not for who has ended before the end."""
    read = ("consume", hanging_topic, "--from-beginning", "--until-end")
    committed = live(*read, *group, "--isolation-level", "read_committed")
    assert (committed.exit_code, committed.out) == (0, "before\n")
    assert committed.err.splitlines() == [
        "Processed a total of 1 messages",
        f"2 records wait behind an open transaction in {hanging_topic}-0",
        f"hint: `kcli transactions find-hanging --topic {hanging_topic}` tells whether it will be ended",
    ]
    assert "behind" not in live(*read, "--max-messages", "0", "--isolation-level", "read_committed").err
    everything = live(*read)
    assert (everything.out, "open transaction" in everything.err) == ("before\nhangs\nbehind\n", False)
    assert live("transactions", "abort", f"{hanging_topic}:0", "--start-offset", "1").exit_code == 0
    ended = live(*read, "--isolation-level", "read_committed")
    assert (ended.out, "open transaction" in ended.err) == ("before\nbehind\n", False)


Offsets = dict[admin.TopicPartition, int | KafkaError]


def answering(monkeypatch: pytest.MonkeyPatch, stable: Offsets, ends: Offsets) -> None:
    """Let leaders answer ListOffsets with these last stable offsets and high watermarks."""

    async def list_offsets(
        client: object, timestamps: object, *, read_committed: bool = False
    ) -> dict[admin.TopicPartition, admin.OffsetAndTimestamp | KafkaError]:
        return {
            partition: found if isinstance(found, KafkaError) else admin.OffsetAndTimestamp(found)
            for partition, found in (stable if read_committed else ends).items()
        }

    monkeypatch.setattr(admin, "list_offsets", list_offsets)


async def test_several_partitions_are_one_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, {P0: 5, P1: 7, P2: 9}, {P0: 6, P1: 7, P2: 2_009})
    assert await withheld(None, [P0, P1, P2]) == {P0: 1, P2: 2_000}  # type: ignore[arg-type]
    await note_withheld(None, [P0, P1, P2])  # type: ignore[arg-type]
    assert capsys.readouterr().err.splitlines()[0] == (
        "2,001 records wait behind open transactions in orders-0 and orders-2"
    )


async def test_a_leader_that_does_not_tell_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, {P0: KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)}, {P0: 6})
    await note_withheld(None, [P0])  # type: ignore[arg-type]
    assert capsys.readouterr().err.startswith(
        "warning: whether records wait behind open transactions is unknown: "
    )
