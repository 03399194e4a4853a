"""The next state of a partition: every election, and the replica that must not be taken away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.controller.partition_change import Election, PartitionChangeBuilder
from kcli.broker.metadata.metadata_image import LeaderRecoveryState, PartitionRegistration
from kcli.protocol.internal.metadata_records import PartitionChangeRecord

TOPIC = b"the topic's id.."


def change(
    partition: PartitionRegistration,
    alive: str,
    *,
    election: Election = Election.ONLINE,
    isr: list[int] | None = None,
) -> PartitionChangeRecord | None:
    return PartitionChangeBuilder(
        partition=partition,
        topic_id=TOPIC,
        partition_id=4,
        is_acceptable=lambda replica: str(replica) in alive,
        election=election,
        isr=isr,
    ).build()


def partition(isr: str, leader: int, *, replicas: str = "123") -> PartitionRegistration:
    return PartitionRegistration(
        replicas=tuple(map(int, replicas)), isr=tuple(map(int, isr)), leader=leader, leader_epoch=6
    )


def record(**fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=TOPIC, partition_id=4, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "alive", "election", "expected"),
    [
        # A leader that may lead stays, even if it is not the preferred one.
        (partition("123", 2), "123", Election.ONLINE, None),
        (partition("123", 1), "23", Election.ONLINE, record(leader=2)),
        (partition("13", 1), "23", Election.ONLINE, record(leader=3)),
        (partition("1", 1), "23", Election.ONLINE, record(leader=-1)),
        (partition("1", -1), "23", Election.ONLINE, None),
        (partition("1", -1), "123", Election.ONLINE, record(leader=1)),
        (partition("123", 2), "123", Election.PREFERRED, record(leader=1)),
        (partition("23", 3), "123", Election.PREFERRED, None),
        (partition("23", 1), "23", Election.PREFERRED, record(leader=2)),
        # Unclean: whoever is there, alone in the in-sync replicas, and marked as not recovered yet.
        (partition("1", 1), "23", Election.UNCLEAN, record(leader=2, isr=[2], leader_recovery_state=1)),
        (partition("1", 1), "123", Election.UNCLEAN, None),
        (partition("1", 1), "", Election.UNCLEAN, record(leader=-1)),
    ],
)
def test_elections(
    before: PartitionRegistration, alive: str, election: Election, expected: PartitionChangeRecord | None
) -> None:
    assert change(before, alive, election=election) == expected


def test_a_smaller_in_sync_set_keeps_the_leader_and_its_epoch() -> None:
    before = partition("123", 1)
    shrunk = change(before, "123", isr=[1, 2])
    assert shrunk == record(isr=[1, 2])
    after = before.merge(shrunk)
    assert (after.isr, after.leader_epoch, after.partition_epoch) == ((1, 2), 6, 1)


def test_the_last_in_sync_replica_stays() -> None:
    assert change(partition("1", 1), "23", isr=[]) == record(leader=-1)


def test_an_unclean_leader_that_is_recovering_is_not_marked_again() -> None:
    before = PartitionRegistration(
        replicas=(1, 2), isr=(1,), leader=1, recovery_state=LeaderRecoveryState.RECOVERING
    )
    assert change(before, "2", election=Election.UNCLEAN) == record(leader=2, isr=[2])


@given(
    replicas=st.permutations([1, 2, 3, 4]),
    data=st.data(),
    alive=st.sets(st.sampled_from("1234")).map("".join),
    election=st.sampled_from(Election),
)
def test_a_leader_is_alive_and_in_sync_and_the_in_sync_set_never_empties(
    replicas: list[int], data: st.DataObject, alive: str, election: Election
) -> None:
    isr = data.draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    before = PartitionRegistration(
        replicas=tuple(replicas), isr=tuple(isr), leader=data.draw(st.sampled_from([-1, *isr]))
    )
    wished = data.draw(st.lists(st.sampled_from(isr), unique=True))
    made = change(before, alive, election=election, isr=wished)
    after = before if made is None else before.merge(made)
    assert after.isr
    if after.leader != -1:
        assert after.leader in after.isr
        assert str(after.leader) in alive
    else:
        assert not any(str(replica) in alive for replica in after.isr)
    # Once there, there is nothing more to do.
    assert change(after, alive, election=election) is None
