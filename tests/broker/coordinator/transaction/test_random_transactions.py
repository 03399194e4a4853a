"""Random requests, failures, delays and restarts of a coordinator of transactional ids."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kcli.broker.coordinator.transaction.transaction import Producer, Transaction, check_transition
from kcli.broker.coordinator.transaction.transaction_states import PREDECESSORS
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import decode_transaction_record
from kcli.protocol.topics import TopicPartition
from tests.broker.coordinator.transaction.virtual_transactions import VirtualTransactions

NAMES = st.sampled_from(["x", "y"])
PARTITIONS = st.lists(
    st.builds(TopicPartition, st.just("t"), st.integers(0, 3)), min_size=1, max_size=3, unique=True
)
FAILURES = st.sampled_from([ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])


def summary(transaction: Transaction) -> tuple[object, ...]:
    """Return what every version of a record has."""
    return (
        transaction.producer,
        transaction.state,
        transaction.partitions,
        transaction.timeout_ms,
        transaction.start_ms,
        transaction.last_update_ms,
    )


class RandomTransactions(RuleBasedStateMachine):
    """Each id has clients that know any of the producers that were ever given to it."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = VirtualTransactions()
        self.given: dict[str, list[Producer]] = {"x": [], "y": []}
        self.read: dict[str, Transaction] = {}
        """What the log says."""
        self.read_records = 0

    def producer(self, name: str, data: st.DataObject) -> Producer:
        newest = self.coordinator.of(name)
        known = [*self.given[name][-4:], *([newest.producer] * 3 if newest is not None else [])]
        return data.draw(st.sampled_from(known or [Producer(1, 0)]))

    @rule(name=NAMES, data=st.data(), has_pair=st.booleans())
    def init(self, name: str, data: st.DataObject, has_pair: bool) -> None:
        pair = self.producer(name, data) if has_pair else None
        answer = self.coordinator.init(pair, name=name)
        if isinstance(answer, Producer):
            given = self.given[name]
            # Nobody else has it; only a repeated request gets the same.
            assert answer not in given or (pair is not None and answer == given[-1])
            given.append(answer)

    @rule(name=NAMES, data=st.data(), partitions=PARTITIONS, version=st.sampled_from([0, 2]))
    def add(self, name: str, data: st.DataObject, partitions: list[TopicPartition], version: int) -> None:
        producer = self.producer(name, data)
        if self.coordinator.add(producer, *partitions, name=name, version=version) == ErrorCode.NONE:
            found = self.coordinator.of(name)
            assert found is not None
            assert found.producer == producer
            assert found.partitions >= set(partitions)

    @rule(name=NAMES, data=st.data(), commit=st.booleans(), version=st.sampled_from([0, 2]))
    def end(self, name: str, data: st.DataObject, commit: bool, version: int) -> None:
        producer = self.producer(name, data)
        answer = self.coordinator.end(producer, commit, name=name, version=version)
        if isinstance(answer, Producer):
            assert version == 0 or answer != producer
            self.given[name].append(answer)

    @rule(name=NAMES, data=st.data(), partitions=PARTITIONS)
    def verify(self, name: str, data: st.DataObject, partitions: list[TopicPartition]) -> None:
        before = len(self.coordinator.log)
        assert (
            self.coordinator.add(self.producer(name, data), *partitions, name=name, verify=True) is not None
        )
        assert len(self.coordinator.log) == before

    @rule(number=st.integers(0, 3))
    def write_marker(self, number: int) -> None:
        for markers in self.coordinator.take_markers():
            self.coordinator.write(markers, TopicPartition("t", number))
            self.coordinator.messages.append(markers)

    @rule()
    def write_markers(self) -> None:
        self.coordinator.write_all()

    @rule(failure=FAILURES)
    def fail_writes(self, failure: ErrorCode) -> None:
        self.coordinator.append_error = failure

    @rule()
    def end_failures(self) -> None:
        self.coordinator.append_error = None

    @rule()
    def hold_commits(self) -> None:
        self.coordinator.holds = True

    @rule()
    def commit(self) -> None:
        self.coordinator.commit_held()

    @rule(ms=st.sampled_from([500, 20_000, 8 * 86_400_000]))
    def pass_time(self, ms: int) -> None:
        self.coordinator.pass_time(ms)
        if self.coordinator.append_error is None:
            self.coordinator.sweep()

    @rule(level=st.integers(0, 2))
    def change_level(self, level: int) -> None:
        self.coordinator.level = level

    @rule(committed=st.booleans())
    def restart(self, committed: bool) -> None:
        self.coordinator.append_error = None
        self.coordinator.restart(committed=committed)

    @invariant()
    def the_log_tells_a_legal_story(self) -> None:
        found = self.read
        log = self.coordinator.log
        for key, value in log[self.read_records :]:
            record = decode_transaction_record(key, value)
            name = record.key.transactional_id
            before = found.get(name)
            if record.value is None:
                assert before is not None
                assert before.state in PREDECESSORS[None]
                del found[name]
            else:
                after = Transaction.from_value(name, record.value)
                check_transition(before, after)
                found[name] = after
        self.read_records = len(log)
        here = {each.transactional_id: each for each in self.coordinator.shard.transactions()}
        assert {name: summary(each) for name, each in here.items()} == {
            name: summary(each) for name, each in found.items()
        }

    def teardown(self) -> None:
        """Without failures every transaction ends, and every id can be used again."""
        self.coordinator.append_error = None
        self.coordinator.commit_held()
        for _ in range(12):
            self.coordinator.write_all()
            self.coordinator.pass_time(20_000)
        self.coordinator.write_all()
        for transaction in list(self.coordinator.shard.transactions()):
            assert transaction.state.is_idle
            assert isinstance(self.coordinator.init(name=transaction.transactional_id), Producer)


TestRandomTransactions = RandomTransactions.TestCase
TestRandomTransactions.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
