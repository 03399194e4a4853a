"""Consumer groups under random members of both protocols, topics, failures and restarts; invariants.

Members vanish, responses are lost and appends fail. In the end the remaining members get time, and the group
must be stable.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kcli.broker.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from kcli.broker.coordinator.consumer.group_registry import Wait
from kcli.broker.coordinator.group_coordinator import GroupCoordinator
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import decode_record
from tests.broker.coordinator.virtual_classic_consumer import ClassicConsumer
from tests.broker.coordinator.virtual_consumers import Consumer, VirtualConsumers

NAMES = st.sampled_from(["a", "b", "c", "d"])
INSTANCES = st.sampled_from([None, None, "i", "j"])
SAYS = st.sampled_from(
    [
        {},
        {"subscribed_topic_names": ["t", "u"]},
        {"subscribed_topic_names": ["u"], "server_assignor": "range"},
        {"subscribed_topic_names": [], "subscribed_topic_regex": "t.*"},
        {"subscribed_topic_names": ["u"], "subscribed_topic_regex": "x|t"},
        {"subscribed_topic_names": ["never"]},
    ]
)
POLICIES = st.sampled_from(["bidirectional", "bidirectional", "upgrade", "downgrade", "disabled"])
PICKS = st.integers(0, 7)
WRITE_ERRORS = st.sampled_from([ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])


class ConsumerGroupsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = VirtualConsumers()
        self.consumers: list[Consumer] = []
        self.classics: list[ClassicConsumer] = []
        self.checked = 0
        self.epochs: dict[str, int] = {}
        """Of the group and of each of its members, as last seen."""

    @initialize(policy=POLICIES, interval_ms=st.sampled_from([0, 0, 1000]))
    def configure(self, policy: str, interval_ms: int) -> None:
        self.world = VirtualConsumers(
            {"t": 3, "u": 2}, migration_policy=policy, consumer_assignment_interval_ms=interval_ms
        )

    # --- members of the consumer protocol -------------------------------------------------------------

    @rule(name=NAMES, instance=INSTANCES, says=SAYS)
    def arrive(self, name: str, instance: str | None, says: dict[str, Any]) -> None:
        self.consumers = [each for each in self.consumers if each.member_id != name]
        consumer = Consumer(self.world, name, {**says, "instance_id": instance})
        self.consumers.append(consumer)
        consumer.beat()

    @precondition(lambda self: self.consumers)
    @rule(pick=PICKS, keeps=st.booleans())
    def beat(self, pick: int, keeps: bool) -> None:
        consumer = self.consumers[pick % len(self.consumers)]
        consumer.keeps = keeps
        consumer.beat()

    @rule()
    def everybody_goes_on(self) -> None:
        self.go_on()

    @precondition(lambda self: self.consumers)
    @rule(pick=PICKS, says=SAYS)
    def want_other_topics(self, pick: int, says: dict[str, Any]) -> None:
        consumer = self.consumers[pick % len(self.consumers)]
        names = {"subscribed_topic_names": ["t"], "subscribed_topic_regex": "", **says}
        consumer.says = {**names, "instance_id": consumer.says["instance_id"]}
        if consumer.epoch > 0:
            call = self.world.beat(consumer.member_id, consumer.epoch, **consumer.says)
            if not call.is_parked:
                consumer.take(call)

    @precondition(lambda self: self.consumers)
    @rule(pick=PICKS, comes_back=st.booleans())
    def leave(self, pick: int, comes_back: bool) -> None:
        consumer = self.consumers.pop(pick % len(self.consumers))
        instance = consumer.says["instance_id"]
        epoch = -2 if comes_back and instance is not None else -1
        self.world.beat(consumer.member_id, epoch, instance_id=instance)

    @precondition(lambda self: self.consumers)
    @rule(pick=PICKS)
    def vanish(self, pick: int) -> None:
        self.consumers.pop(pick % len(self.consumers))

    @rule(name=NAMES, epoch=st.integers(-3, 9), version=st.integers(0, 1), instance=INSTANCES)
    def talk_nonsense(self, name: str, epoch: int, version: int, instance: str | None) -> None:
        if all(each.member_id != name for each in self.consumers) or epoch not in {0, -1, -2}:
            self.world.beat(name, epoch, version=version, instance_id=instance, rack_id="r")

    # --- members of the classic protocol --------------------------------------------------------------

    @rule(instance=INSTANCES, topics=st.sampled_from([("t",), ("t", "u"), ("u",)]))
    def arrive_classic(self, instance: str | None, topics: tuple[str, ...]) -> None:
        if len(self.classics) < 4:
            self.classics.append(ClassicConsumer(self.world, topics, instance))
            self.classics[-1].turn()

    @precondition(lambda self: self.classics)
    @rule(pick=PICKS, turns=st.integers(1, 4))
    def turn_classic(self, pick: int, turns: int) -> None:
        for _ in range(turns):
            self.classics[pick % len(self.classics)].turn()

    @precondition(lambda self: self.classics)
    @rule(pick=PICKS, says_goodbye=st.booleans())
    def end_classic(self, pick: int, says_goodbye: bool) -> None:
        classic = self.classics.pop(pick % len(self.classics))
        if says_goodbye:
            classic.leave()

    # --- the world ---------------------------------------------------------------------------------

    @rule(counts=st.sampled_from([{"t": 5}, {"x": 2}, {"u": 4}, {"t2": 1}]))
    def make_topics(self, counts: dict[str, int]) -> None:
        existing = {name: len(topic.partitions) for name, topic in self.world.image.topics.items()}
        self.world.topics(**{name: max(count, existing.get(name, 0)) for name, count in counts.items()})

    @rule(name=st.sampled_from(["t", "u", "x", "t2"]))
    def delete_topic(self, name: str) -> None:
        if name in self.world.image.topics:
            self.world.topics(**{name: 0})
            for client in (*self.consumers, *self.classics):
                client.owned = {each for each in client.owned if each[0] != name}
            for consumer in self.consumers:
                consumer.target = {each for each in consumer.target if each[0] != name}

    @rule(seconds=st.sampled_from([1, 5, 20, 50, 70]))
    def let_time_pass(self, seconds: int) -> None:
        self.world.advance(seconds * 1000)

    @rule(error=WRITE_ERRORS)
    def fail_appends(self, error: ErrorCode) -> None:
        self.world.append_error = error

    @rule()
    def append_again(self) -> None:
        self.world.append_error = None

    @rule(holds=st.booleans())
    def hold_commits(self, holds: bool) -> None:
        self.world.holds_commits = holds
        if not holds:
            self.world.commit_held()

    @rule()
    def restart(self) -> None:
        self.world.restart()

    # --- what always holds ---------------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.world.shard.groups.get("g")
        return group if isinstance(group, ConsumerGroup) else None

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        if self.group is None:
            return
        had = [
            (topic_id, index)
            for member in self.group.members.values()
            for owned in (member.assigned, member.revoking)
            for topic_id, partitions in owned.items()
            for index in partitions
        ]
        assert len(had) == len(set(had))
        assert set(had) == set(self.group._owners)

    @invariant()
    def nobody_reads_what_is_not_its_own(self) -> None:
        if self.group is None:
            return
        for client in (*self.consumers, *self.classics):
            member = self.group.members.get(client.member_id)
            is_known = member is not None and (
                isinstance(client, ClassicConsumer) == (member.classic is not None)
            )
            if member is not None and is_known and not self.is_stranger(client):
                has = self.world._named_owned(member.assigned) | self.world._named_owned(member.revoking)
                assert client.owned <= has, (client, member)

    def is_stranger(self, client: Consumer | ClassicConsumer) -> bool:
        """True for a member that another one has replaced under the same id."""
        if isinstance(client, Consumer):
            return client.epoch == 0
        return client.generation != self.world.group().members[client.member_id].epoch

    @invariant()
    def epochs_only_grow(self) -> None:
        group = self.group
        if group is None:
            self.epochs = {}
            return
        members = {
            f"member {each.member_id}": each.epoch for each in group.members.values() if each.epoch >= 0
        }
        epochs = {"group": group.epoch, "target": group.target_epoch, **members}
        for what, epoch in epochs.items():
            if not (what.startswith("member") and group.members[what[7:]].instance_id):
                assert epoch >= self.epochs.get(what, 0), what
        assert group.target_epoch <= group.epoch
        self.epochs = epochs

    @invariant()
    def the_log_says_what_is_in_memory(self) -> None:
        if len(self.world.log) == self.checked or len(self.world.log) > 300:
            return
        self.checked = len(self.world.log)
        replayed = GroupCoordinator(self.world.config, image=lambda: self.world.image, new_id=str)
        for key, value in self.world.log:
            record = decode_record(key, value)
            replayed.replay(record.key, record.value)
        for name, group in self.world.shard.groups.items():
            other = replayed.groups.get(name)
            if isinstance(group, ConsumerGroup):
                assert isinstance(other, ConsumerGroup)
                assert hard_state(other) == hard_state(group)

    @invariant()
    def every_member_has_a_session_and_no_timer_is_left_behind(self) -> None:
        timers = {key for key in self.world.timers if isinstance(key, tuple) and isinstance(key[0], Wait)}
        if self.world.held:
            return
        members = set() if self.group is None else set(self.group.members)
        assert {member_id for _, _, member_id in timers} <= members
        assert {member_id for wait, _, member_id in timers if wait is Wait.SESSION} == members

    def teardown(self) -> None:
        self.world.append_error = None
        self.hold_commits(False)
        for _ in range(40):
            self.go_on()
            self.world.advance(5_000)
            self.no_partition_has_two_owners()
        self.rests()
        self.world.unload()
        assert not [call.name for call in self.world.calls if not call.responses]
        assert not self.world.timers

    def go_on(self) -> None:
        for consumer in self.consumers:
            consumer.keeps = False
            consumer.beat()
        for classic in self.classics:
            classic.turn()

    def rests(self) -> None:
        group = self.group
        live = [each for each in self.consumers if each.error is ErrorCode.NONE]
        if group is None:
            assert not live
            return
        assert group.state in {ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY}, self.world.outline()
        assert {each.member_id for each in live} <= set(group.members)
        owned: set[tuple[bytes, int]] = set()
        for member_id, member in group.members.items():
            has = {topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()}
            assert has == group.targets.get(member_id, {})
            owned |= {(topic_id, index) for topic_id, indexes in has.items() for index in indexes}
        topics = [
            self.world.image.topics[name] for name in group.subscribed if name in self.world.image.topics
        ]
        if group.members:
            assert owned == {
                (each.topic_id, index) for each in topics for index in range(len(each.partitions))
            }


def hard_state(group: ConsumerGroup) -> object:
    return (
        group.epoch,
        group.metadata_hash,
        group.target_epoch,
        group.target_wall_ms,
        group.members,
        group.targets,
        group.static_members,
        group.regexes,
        group._owners,
        group.subscribed,
    )


TestConsumerGroups = ConsumerGroupsMachine.TestCase
TestConsumerGroups.settings = settings(max_examples=80, stateful_step_count=50)
