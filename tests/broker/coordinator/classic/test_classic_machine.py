"""Classic groups under random requests, timers, failing appends and restarts; invariants after every step.

Offsets are committed in rising order, so that an offset that goes back shows.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kcli.broker.coordinator.classic.group import ClassicGroupState
from kcli.broker.coordinator.effects import Schedule
from kcli.broker.metadata.metadata_image import MetadataDelta, TopicImage
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import GroupMetadataKey, decode_record
from kcli.protocol.uuids import ZERO_UUID
from tests.broker.coordinator.virtual_coordinator import Call, VirtualCoordinator, subscription

GROUPS = st.sampled_from(["g", "h"])
INSTANCES = st.sampled_from([None, None, None, "i", "j"])
VERSIONS = st.sampled_from([0, 3, 4, 8, 9])
PROTOCOLS = st.sampled_from(
    [
        {"range": subscription("t")},
        {"range": subscription("t"), "roundrobin": subscription("t", "u")},
        {"roundrobin": subscription("u"), "range": subscription("u")},
        {"range": b"not a subscription"},
        {"sticky": b""},
    ]
)
PICKS = st.integers(0, 7)
WRITE_ERRORS = st.sampled_from(
    [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR]
)


class ClassicGroupsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = VirtualCoordinator(max_size=4)
        self.offsets = itertools.count(1)
        self.known: list[tuple[str, str, str | None]] = []
        """Group, member id and instance id of all that were ever told an id."""
        self.joins: list[tuple[str, str | None, Call]] = []
        self.syncs: list[tuple[str, str, int, Call]] = []
        self.committed: dict[tuple[str, str, int], int] = {}
        self.generations: dict[str, tuple[int, int]] = {}
        """Identity and generation of each group as last seen."""
        self.assignments: dict[tuple[str, int, str], bytes] = {}

    # --- what clients do ---------------------------------------------------------------------------

    @rule(group=GROUPS, instance=INSTANCES, version=VERSIONS, protocols=PROTOCOLS)
    def join_anew(self, group: str, instance: str | None, version: int, protocols: dict[str, bytes]) -> None:
        if version < 5:
            instance = None
        call = self.world.join(group=group, instance=instance, version=version, protocols=protocols)
        self.joins.append((group, instance, call))

    @precondition(lambda self: self.known)
    @rule(pick=PICKS, version=VERSIONS, protocols=PROTOCOLS, changed=st.booleans())
    def join_again(self, pick: int, version: int, protocols: dict[str, bytes], changed: bool) -> None:
        group, member_id, instance = self.pick(pick)
        offered = protocols if changed else PROTOCOL_OF_MOST
        call = self.world.join(member_id, group=group, instance=instance, version=version, protocols=offered)
        self.joins.append((group, instance, call))

    @precondition(lambda self: self.known)
    @rule(pick=PICKS, stale=st.sampled_from([0, 0, 0, 1]))
    def sync(self, pick: int, stale: int) -> None:
        group, member_id, instance = self.pick(pick)
        generation = self.generation(group) - stale
        number = next(self.offsets)
        members = self.world.shard.groups[group].members if group in self.world.shard.groups else ()
        assignments = {each: f"{number} for {each}".encode() for each in list(members)[:3]}
        call = self.world.sync(member_id, generation, group=group, assignments=assignments, instance=instance)
        self.syncs.append((group, member_id, generation, call))

    @rule(group=GROUPS)
    def everybody_joins_and_syncs(self, group: str) -> None:
        if group not in self.world.shard.groups:
            return
        for member in list(self.world.group(group).members.values()):
            offered = {each.name: each.metadata for each in member.protocols}
            call = self.world.join(
                member.member_id, group=group, instance=member.group_instance_id, protocols=offered
            )
            self.joins.append((group, member.group_instance_id, call))
        for index, (known_group, _, _) in enumerate(self.known[-8:]):
            if known_group == group:
                self.sync(index, 0)

    @precondition(lambda self: self.known)
    @rule(pick=PICKS, stale=st.sampled_from([0, 0, 1]))
    def heartbeat(self, pick: int, stale: int) -> None:
        group, member_id, instance = self.pick(pick)
        self.world.heartbeat(member_id, self.generation(group) - stale, group=group, instance=instance)

    @precondition(lambda self: self.known)
    @rule(pick=PICKS, by_instance=st.booleans())
    def leave(self, pick: int, by_instance: bool) -> None:
        group, member_id, instance = self.pick(pick)
        self.world.leave(("" if by_instance else member_id, instance), group=group)

    @rule(group=GROUPS, partition=st.integers(0, 1), topic=st.sampled_from(["t", "u"]))
    def commit_alone(self, group: str, topic: str, partition: int) -> None:
        self.world.commit({(topic, partition): next(self.offsets)}, group=group)

    @precondition(lambda self: self.known)
    @rule(pick=PICKS, partition=st.integers(0, 1), metadata=st.sampled_from(["", "m", "m" * 5000]))
    def commit(self, pick: int, partition: int, metadata: str) -> None:
        group, member_id, instance = self.pick(pick)
        self.world.commit(
            {("t", partition): next(self.offsets), ("u", partition): next(self.offsets)},
            group=group,
            member_id=member_id,
            generation=self.generation(group),
            instance=instance,
            metadata=metadata,
        )

    # --- what tools do -----------------------------------------------------------------------------

    @rule(group=GROUPS, what=st.sampled_from(["group", "offsets", "topic", "a week passes"]))
    def something_is_deleted(self, group: str, what: str) -> None:
        world = self.world
        match what:
            case "group":
                world.delete(group)
            case "offsets":
                world.delete_offsets(("t", 0), ("u", 1), group=group)
            case "topic":
                delta = MetadataDelta(deleted_topics=(TopicImage("u", ZERO_UUID, ()),))
                world.perform(world.shard.image_changed(world.now, delta))
            case _:
                world.advance(8 * 24 * 3600 * 1000)
                world.perform(world.shard.expire_offsets(world.now))
        self.forget_deleted()

    # --- what happens ------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 100, 5_000, 10_001, 60_000, 301_000]))
    def time_passes(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(pick=PICKS)
    def a_timer_fires_early(self, pick: int) -> None:
        early = [key for key, due_ms in self.world.timers.items() if due_ms > self.world.now_ms]
        keys = [*early, ("session", "g", "nobody"), ("join", "nothing"), ("sync", "nothing")]
        effects = self.world.shard.expire(self.world.now, keys[pick % len(keys)])
        assert all(isinstance(effect, Schedule) for effect in effects)
        self.world.perform(effects)

    @rule(error=st.none() | WRITE_ERRORS)
    def the_log_works_or_fails(self, error: ErrorCode | None) -> None:
        self.world.append_error = error

    @rule(mood=st.sampled_from(["slow", "quick", "catching up", "lost"]), error=WRITE_ERRORS)
    def replicas_are(self, mood: str, error: ErrorCode) -> None:
        match mood:
            case "catching up":
                self.world.commit_held()
            case "lost":
                self.world.fail_held(error)
            case _:
                self.world.holds_commits = mood == "slow"

    @rule()
    def restart(self) -> None:
        self.world.restart()
        for name, group in self.world.shard.groups.items():
            assert group.generation >= stored_generations(self.world).get(name, 0)
        self.generations.clear()
        assert not [call.name for call in self.world.calls if call.is_parked]

    # --- what must hold ----------------------------------------------------------------------------

    @invariant()
    def members_and_leaders_fit(self) -> None:
        for group in self.world.shard.groups.values():
            members = group.members
            assert bool(members) <= (group.state is not ClassicGroupState.EMPTY)
            if members or group.state in {ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE}:
                assert group.leader_id in members
            static = {m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id}
            assert group.static_members == static
            names = (name for m in members.values() for name in {each.name for each in m.protocols})
            assert group.supported == Counter(names)
            assert not members or group.select_protocol() is not None
            assert group.awaiting_joins == sum(m.awaiting_join is not None for m in members.values())
            assert not group.pending.keys() & members.keys()
            assert group.pending_syncs <= members.keys()
            assert bool(group.pending_syncs) == (group.sync_deadline_ms is not None)

    @invariant()
    def timers_are_for_what_exists(self) -> None:
        expected: set[Any] = set()
        for name, group in self.world.shard.groups.items():
            expected |= {("session", name, each) for each in (*group.members, *group.pending)}
            expected |= {("join", name)} if group.join_deadline_ms is not None else set()
            expected |= {("sync", name)} if group.sync_deadline_ms is not None else set()
            for member in group.members.values():
                due_ms = self.world.timers[("session", name, member.member_id)]
                assert due_ms == member.timer_ms <= member.deadline_ms
        # A deletion that is not committed yet still has the timers of pending ids.
        leftover = self.world.timers.keys() - expected
        assert expected <= self.world.timers.keys()
        assert not leftover or self.world.held
        assert all(key[0] == "session" for key in leftover)  # type: ignore[index]

    @invariant()
    def whoever_waits_is_remembered(self) -> None:
        parked = {call for call in self.world.calls if call.is_parked}
        remembered = set()
        for group in self.world.shard.groups.values():
            for member in group.members.values():
                remembered |= {member.awaiting_join, member.awaiting_sync}
        remembered.discard(None)
        assert remembered <= parked
        assert self.world.held or parked == remembered

    @invariant()
    def generations_grow(self) -> None:
        groups = self.world.shard.groups
        self.generations = {name: seen for name, seen in self.generations.items() if name in groups}
        for name, group in groups.items():
            identity, generation = self.generations.get(name, (0, 0))
            assert identity != id(group) or group.generation >= generation
            self.generations[name] = (id(group), group.generation)

    @invariant()
    def answers_are_taken(self) -> None:
        for group, instance, call in [each for each in self.joins if not each[2].is_parked]:
            if call.error in {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}:
                who = (group, call.response.member_id, instance)
                if who not in self.known:
                    self.known.append(who)
            if call.error is ErrorCode.NONE:
                leads = call.response.leader == call.response.member_id
                assert leads == bool(call.response.members)
        self.joins = [each for each in self.joins if each[2].is_parked]
        for group, member_id, generation, call in [each for each in self.syncs if not each[3].is_parked]:
            if call.error is ErrorCode.NONE:
                seen = self.assignments.setdefault((group, generation, member_id), call.response.assignment)
                assert seen == call.response.assignment, "two assignments in one generation"
        self.syncs = [each for each in self.syncs if each[3].is_parked]

    @invariant()
    def offsets_do_not_go_back(self) -> None:
        now = {
            (group, topic, partition): offset
            for group in ("g", "h")
            for (topic, partition), offset in self.world.offsets(group).items()
        }
        for key, offset in self.committed.items():
            assert now.get(key, -1) >= offset
        self.committed = now

    # --- helpers -----------------------------------------------------------------------------------

    def pick(self, number: int) -> tuple[str, str, str | None]:
        """Choose a current or a recent member."""
        groups = self.world.shard.groups
        there = [
            each for each in self.known if each[0] in groups and each[1] in _who_is_there(groups[each[0]])
        ]
        candidates = [*there[-7:], self.known[-1]]
        return candidates[number % len(candidates)]

    def generation(self, group: str) -> int:
        found = self.world.shard.groups.get(group)
        return 1 if found is None else found.generation

    def forget_deleted(self) -> None:
        """Forget what was deleted on purpose."""
        for key in list(self.committed):
            if (key[1], key[2]) not in self.world.offsets(key[0]):
                del self.committed[key]
        for known in list(self.assignments):
            if known[0] not in self.world.shard.groups:
                del self.assignments[known]

    def teardown(self) -> None:
        self.world.append_error = None
        self.world.commit_held()
        self.world.holds_commits = False
        for _ in range(4):
            self.world.advance(600_000)
        assert not [call.name for call in self.world.calls if len(call.responses) != 1]
        assert not self.world.timers
        assert all(not group.members for group in self.world.shard.groups.values())


PROTOCOL_OF_MOST = {"range": subscription("t")}


def _who_is_there(group: Any) -> set[str]:
    return {*group.members, *group.pending}


def stored_generations(world: VirtualCoordinator) -> dict[str, int]:
    """Return the last generation of each group in the log."""
    found: dict[str, int] = {}
    for data in world.log:
        key, value, _ = decode_record(*data)
        if isinstance(key, GroupMetadataKey):
            found[key.group] = 0 if value is None else value.generation
    return found


TestClassicGroups = ClassicGroupsMachine.TestCase
TestClassicGroups.settings = settings(max_examples=250, stateful_step_count=80, deadline=None)
