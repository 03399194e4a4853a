"""Sends the requests of a seed to both brokers and collects what differs without an explanation."""

from __future__ import annotations

import time
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from tests.differential.comparing import differences
from tests.differential.explained import explanation
from tests.differential.probes import PROBES, probe_of
from tests.differential.requests import CHANGING, Request, RequestMaker, sync_after
from tests.differential.shrinking import moved, shrunk
from tests.differential.sides import NoResponse, error_codes
from tests.differential.world import World, prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.differential.comparing import Difference
    from tests.differential.sides import Pair

WORLD_REQUESTS = 400
"""After so many requests another world begins."""


@dataclass(slots=True)
class Finding:
    """A kind of difference: the first request that showed it, in which world, and after which others."""

    request: Request
    difference: Difference
    history: list[Request]
    world: World
    is_afterwards: bool = False
    count: int = 1
    is_alone: bool = False


@dataclass(slots=True)
class Report:
    """What a run found."""

    requests: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    findings: dict[Any, Finding] = field(default_factory=dict)
    worlds: int = 0


class Comparison:
    """One run against a pair of brokers."""

    def __init__(self, pair: Pair, *, seed: int, names: tuple[str, ...] = ()) -> None:
        self._pair = pair
        self.asker = pair
        """As whom the compared requests are sent."""
        self._seed = seed
        self._maker = RequestMaker(names)
        self._run = f"{int(time.time()):x}"
        self._next_world = 0
        self.report = Report()

    def run(self, requests: int, progress: Callable[[int], None] = lambda number: None) -> Report:
        """Send so many requests."""
        prepare(self._pair)
        world = self.new_world()
        history: list[Request] = []
        for number in range(requests):
            if len(history) >= WORLD_REQUESTS or (number % WORLD_REQUESTS == 0 and number):
                world.delete()
                world, history = self.new_world(), []
            random = Random(f"{self._seed}/{number}")
            request = self._maker.make(random, world)
            self.choose_asker(random)
            self.report.requests[request.api] += 1
            if self._differ(request, world, history) or world.is_spent:
                world.delete()
                world, history = self.new_world(), []
            else:
                history.append(request)
            progress(number)
        world.delete()
        return self.report

    def choose_asker(self, random: Random) -> None:
        """Choose who sends the next request."""

    def new_world(self) -> World:
        """A world that no request has changed yet."""
        self._next_world += 1
        self.report.worlds += 1
        world = World(self._pair, self._run, self._next_world, self._seed)
        world.build()
        return world

    def _differ(self, request: Request, world: World, history: list[Request]) -> bool:
        """Send a request; return whether the brokers may have got out of step."""
        kept = deepcopy(request)
        found, response = self._ask(request, world)
        for code in error_codes(response):
            self.report.errors[f"{request.api} {ErrorCode(code).name if code else 'NONE'}"] += 1
        self._note(kept, found, history, world)
        if found and request.api == "Produce" and not isinstance(response, NoResponse):
            return bool(self._probe(request, world))
        if found:
            return request.api in PROBES or isinstance(response, NoResponse)
        found = self._probe(request, world)
        self._note(kept, found, history, world, is_afterwards=True)
        return bool(found)

    def _ask(self, request: Request, world: World) -> tuple[list[Difference], Any]:
        """Send a request and wait for its effect; return what differs, and Apache Kafka's response."""
        theirs, ours = exchange(self.asker, request)
        settle(request, theirs, world)
        return differences(theirs, ours, self._foreign(request, world)), theirs

    def _probe(self, request: Request, world: World) -> list[Difference]:
        """Return what differs in the state that a request has changed."""
        probe = probe_of(request, world)
        return [] if probe is None else differences(*exchange(self._pair, probe), self._foreign(probe, world))

    def _note(
        self,
        request: Request,
        found: list[Difference],
        history: list[Request],
        world: World,
        *,
        is_afterwards: bool = False,
    ) -> None:
        """Count differences: explained ones by their row, others by their kind."""
        for difference in found:
            row = explanation(request, difference)
            if row is not None:
                self.report.explained[row.reason] += 1
                continue
            kind = (request.api, is_afterwards, *kind_of(difference))
            if kind in self.report.findings:
                self.report.findings[kind].count += 1
                continue
            finding = Finding(request, difference, list(history), world, is_afterwards)
            self.report.findings[kind] = finding

    def close(self) -> None:
        """Close the connections."""
        self._pair.close()

    def shrink(self, finding: Finding) -> None:
        """Look for the smallest request that shows a difference in a new world."""
        request = finding.request
        is_changing = request.api in PROBES
        worlds = [self.new_world()]

        def shows(candidate: Request) -> bool:
            if is_changing and len(worlds) > 1:
                worlds[-1].delete()
            if is_changing or len(worlds) == 1:
                worlds.append(self.new_world())
            here = worlds[-1]
            there = moved(candidate, finding.world, here)
            differing, _ = self._ask(there, here)
            if finding.is_afterwards:
                differing = self._probe(there, here)
            return any(
                kind_of(each) == kind_of(finding.difference) and explanation(there, each) is None
                for each in differing
            )

        finding.is_alone = shows(request)
        if finding.is_alone:
            finding.request = shrunk(request, shows)
            shows(finding.request)
        worlds[-1].delete()

    @staticmethod
    def _foreign(request: Request, world: World) -> Callable[[str], bool]:
        asked = repr(request.body)
        return lambda name: (
            bool(name) and world.is_foreign(name) and name not in asked and repr(name)[1:-1] not in asked
        )


def exchange(pair: Pair, request: Request) -> tuple[Any, Any]:
    """Send one request to both and return the outcomes."""
    if request.api == "Produce" and request.body.acks == 0:
        return pair.tell(request.body, request.version, ApiVersionsRequest())
    return pair.ask(request.body, request.version)


def kind_of(difference: Difference) -> tuple[str, str, str]:
    """What differences have in common: the path, and numbers and short texts as they are, else only types."""
    texts = [
        repr(value) if len(repr(value)) < 30 else type(value).__name__
        for value in (difference.apache, difference.kcli)
    ]
    return difference.path, texts[0], texts[1]


def settle(request: Request, response: Any, world: World) -> None:
    """Let the brokers finish what a request has changed."""
    if isinstance(response, NoResponse):
        # Sessions of members end while both are waited for, and not at the same time.
        world.is_spent = world.is_spent or response.kind == "silent"
        return
    if request.api in CHANGING:
        world.settle()
        world.learn_topic_ids()
    if request.api == "Metadata" and (request.version < 4 or request.body.allow_auto_topic_creation):
        missing = {
            topic.name
            for topic in response.topics
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        if missing:
            world.await_created(missing)
    if request.api in ("InitProducerId", "EndTxn") and request.body.transactional_id:
        if not response.error_code and response.producer_id >= 0:
            producer = (response.producer_id, response.producer_epoch)
            world.producers[request.body.transactional_id] = producer
        world.settle_transaction(request.body.transactional_id)
    if request.api == "JoinGroup" and response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
        # An empty consumer group is forgotten by Apache Kafka then, which shows after the next write.
        world.is_spent = True
    if request.api == "JoinGroup" and not response.error_code and response.leader == response.member_id:
        world.wanted.append(sync_after(request, response))
    elif request.api in ("JoinGroup", "SyncGroup", "LeaveGroup", "Heartbeat"):
        world.settle_group(request.body.group_id)
    member = getattr(response, "member_id", None)
    if member and member not in world.members:
        world.members.append(member)
