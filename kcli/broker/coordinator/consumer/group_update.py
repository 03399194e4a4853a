"""GroupUpdate: what one event changes in a consumer group: its records, and the group after them.

The group object changes only when the records are replayed. Until then an update works with the future
members, targets and epochs. Records are in the order in which Apache Kafka writes them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcli.assignors.server_assignors import ServerMember, assign_range, assign_uniform
from kcli.broker.coordinator.consumer.group import ConsumerGroupRecords
from kcli.broker.coordinator.consumer.member import Reconciliation
from kcli.broker.coordinator.consumer.topic_regex import ResolvedRegex
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.re2 import InvalidExpression
from kcli.protocol.topic_expression import Effort, expression

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kcli.assignors.server_assignors import Partitions, ServerAssignor
    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.consumer.group import ConsumerGroup
    from kcli.broker.coordinator.consumer.member import ConsumerMember
    from kcli.broker.coordinator.consumer.topic_hash import TopicHashes
    from kcli.broker.coordinator.effects import CoordinatorRecord, Now
    from kcli.broker.coordinator.group import ClientInfo
    from kcli.broker.metadata.metadata_image import MetadataImage


ASSIGNORS: Mapping[str, ServerAssignor] = {"uniform": assign_uniform, "range": assign_range}


def choose_assignor(members: Collection[ConsumerMember], offered: Sequence[str]) -> str:
    """Return the offered assignor that most members ask for; the first offered one on a tie."""
    votes = Counter(member.assignor for member in members)
    return max(offered, key=lambda name: votes[name])


def compute_target(
    assignor: str,
    members: Mapping[str, ConsumerMember],
    *,
    targets: Mapping[str, Partitions],
    topics_of: Callable[[ConsumerMember], Collection[str]],
    image: MetadataImage,
) -> dict[str, Partitions]:
    """Return the target assignment of each member (Kafka class `TargetAssignmentBuilder`).

    `members` is the state after this event, `targets` the current targets. `topics_of` returns the names that
    a member subscribes to, existing or not.
    """
    specs = {}
    for member_id, member in members.items():
        names = topics_of(member)
        ids = frozenset(image.topics[name].topic_id for name in names if name in image.topics)
        specs[member_id] = ServerMember(ids, targets.get(member_id, {}), member.instance_id)
    wanted = frozenset[bytes]().union(*(spec.topics for spec in specs.values()))
    counts = {topic_id: len(image.topics_by_id[topic_id].partitions) for topic_id in wanted}
    return ASSIGNORS[assignor](counts, specs)


class GroupUpdate:
    """One update of a group. `records` are to be written; those given come first."""

    def __init__(
        self,
        group: ConsumerGroup,
        now: Now,
        *,
        image: MetadataImage,
        config: GroupConfig,
        hashes: TopicHashes,
        records: Iterable[CoordinatorRecord] = (),
    ) -> None:
        self.group = group
        self.records = list(records)
        self.members: Mapping[str, ConsumerMember] = group.members
        self.targets = group.targets
        self.regexes = group.regexes
        self.epoch = group.epoch
        self.must_assign = False
        """True if the update needs a new epoch in any case."""
        self.target_epoch = group.target_epoch
        self._now = now
        self._image = image
        self._config = config
        self._hashes = hashes
        self._record = ConsumerGroupRecords(group.group_id)
        self._effort = Effort()
        self._client: ClientInfo | None = None
        self._fresh: dict[str, ResolvedRegex] = {}
        """The matches of expressions that are new to the group."""

    def put(self, member: ConsumerMember) -> None:
        if self.members.get(member.member_id) != member:
            self.records.append(self._record.member(member))
            self.members = {**self.members, member.member_id: member}

    def replace(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """Replace a member by another, which takes over its partitions and its target."""
        target = self.targets.get(old.member_id, {})
        self.remove([old])
        self.put(new)
        self.records += [self._record.target(new.member_id, target), self._record.assignment(new)]
        self.targets = {**self.targets, new.member_id: target}

    def remove(self, members: Collection[ConsumerMember]) -> None:
        gone = {member.member_id for member in members}
        for member in members:
            self.records += self._record.member_tombstones(member.member_id)
        self.members = {key: member for key, member in self.members.items() if key not in gone}
        self.targets = {key: target for key, target in self.targets.items() if key not in gone}

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that delete the group in its updated state."""
        return self._record.tombstones(self.members, self.regexes)

    def resubscribe(
        self,
        old: ConsumerMember,
        new: ConsumerMember,
        *,
        client: ClientInfo | None = None,
        with_target: bool = True,
    ) -> bool:
        """Update a member's subscription, and with it the group's epoch and target.

        Returns whether the member's topics changed. `new` is `old` itself if the member said nothing new.
        Expressions match what `client` may see, and are not matched without one.
        """
        self._client = client
        unchanged = new is old and not self.group.needs_check and not self._are_regexes_due()
        if unchanged and self.target_epoch >= self.epoch and not self.must_assign:
            return False
        if new.regex and new.regex != old.regex:
            self._check_regex(new.regex)
        self.put(new)
        changed = (new.topics, new.regex) != (old.topics, old.regex)
        matched = self._match_regexes()
        bump = changed or matched or self.must_assign or not self.epoch
        if bump or self.group.needs_check:
            self.update_epoch(bump=bump)
        if with_target:
            self.update_target()
        return changed

    def topics_of(self, member: ConsumerMember) -> Collection[str]:
        """Return the names of the topics that a member subscribes to, existing or not."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def drop_unused_regexes(self) -> None:
        used = {member.regex for member in self.members.values()}
        for regex in sorted(self.regexes.keys() - used):
            self.records.append(self._record.regex_tombstone(regex))
        self.regexes = {regex: resolved for regex, resolved in self.regexes.items() if regex in used}

    def _match_regexes(self) -> bool:
        """Match new expressions, or all if topics came or went; return True if a result changed."""
        used = {member.regex for member in self.members.values() if member.regex}
        due = self._are_regexes_due()
        self.drop_unused_regexes()
        changed = False
        for regex in sorted(used):
            known = self.regexes.get(regex)
            if self._client is not None and (known is None or due):
                changed |= self._match(regex, known)
        if due:
            self.group.regexes_are_stale = False
            self.group.regexes_checked_ms = self._now.ms
        return changed

    def _are_regexes_due(self) -> bool:
        group = self.group
        if not group.regexes or self._client is None:
            return False
        age_ms = self._now.ms - group.regexes_checked_ms
        stale = group.regexes_are_stale or group.epoch < group.fresh_epoch
        return stale or age_ms >= self._config.regex_refresh_interval_ms

    def _check_regex(self, regex: str) -> None:
        """Raise INVALID_REGULAR_EXPRESSION if the expression is invalid or takes too long to match."""
        try:
            if regex not in self.regexes:
                self._fresh[regex] = self._resolve(regex)
            else:
                expression(regex)
        except InvalidExpression as error:
            why = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error.message}"
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, why) from error

    def _resolve(self, regex: str) -> ResolvedRegex:
        resolved = ResolvedRegex.of(expression(regex), self._image, self._now, self._effort)
        if self._client is None or self._client.hidden is None:
            return resolved
        return resolved._replace(topics=resolved.topics.difference(self._client.hidden(resolved.topics)))

    def _match(self, regex: str, known: ResolvedRegex | None) -> bool:
        try:
            resolved = self._fresh[regex] if regex in self._fresh else self._resolve(regex)
        except InvalidExpression:
            # Another broker accepted it, or matching takes too long by now: keep the last result.
            resolved = known or ResolvedRegex(frozenset(), self._image.offset, self._now.wall_ms)
        if known is not None and known.topics == resolved.topics:
            return False
        self.records.append(self._record.regex(regex, resolved))
        self.regexes = {**self.regexes, regex: resolved}
        return True

    def update_epoch(self, *, bump: bool) -> None:
        """Increase the epoch if `bump` is true or the hash of the group's topics changed."""
        names = (name for member in self.members.values() for name in member.topics)
        matched = (name for resolved in self.regexes.values() for name in resolved.topics)
        metadata_hash = self._hashes.of_group({*names, *matched}, self._image)
        if bump or metadata_hash != self.group.metadata_hash:
            self.epoch += 1
            self.records.append(self._record.epoch(self.epoch, metadata_hash))
        self.group.is_stale = False
        self.group.fresh_epoch = self.epoch
        if self.group.has_topics_record:
            self.records.append(self._record.topics_tombstone())

    def update_target(self) -> None:
        """Compute the target of a new epoch, unless the last one is too recent (KIP-1263)."""
        if self.target_epoch >= self.epoch:
            return
        since_ms = self.group.target_wall_ms
        if since_ms and self._now.wall_ms < since_ms + self._config.consumer_assignment_interval_ms:
            return
        targets = compute_target(
            choose_assignor(self.members.values(), self._config.consumer_assignors),
            self.members,
            targets=self.targets,
            topics_of=self.topics_of,
            image=self._image,
        )
        for member_id in sorted(targets):
            if targets[member_id] != self.targets.get(member_id):
                self.records.append(self._record.target(member_id, targets[member_id]))
        self.records.append(self._record.target_epoch(self.epoch, self._now.wall_ms))
        self.targets, self.target_epoch = targets, self.epoch

    def reconcile(
        self, member_id: str, owned: Mapping[bytes, Collection[int]] | None, *, subscription_changed: bool
    ) -> ConsumerMember:
        """Perform the next step of a member; return the member after it."""
        member = self.members[member_id]
        if member.is_reconciled_to(self.target_epoch) and not subscription_changed:
            return member
        topics = self._image.topics
        names = self.topics_of(member)
        reconciliation = Reconciliation(
            target_epoch=self.target_epoch,
            target=self.targets.get(member_id, {}),
            owned=owned,
            subscribed={topics[name].topic_id for name in names if name in topics},
            is_owned=self.group.is_owned,
        )
        stepped = reconciliation.step(member, subscription_changed=subscription_changed)
        if stepped != member:
            self.records.append(self._record.assignment(stepped))
            self.members = {**self.members, member_id: stepped}
        return stepped
