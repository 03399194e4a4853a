"""The comparison with authorizers: clients at many addresses, each with random access control entries.

Every client is `User:ANONYMOUS`, and an entry is for one address. The world is built from `ADMIN`, an address
that may do everything; the first request there finds a cluster without entries, which is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kcli.security.acl import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from tests.differential.run import Comparison
from tests.differential.world import TOPICS, TRANSACTIONAL_IDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tests.differential.sides import Pair
    from tests.differential.world import World

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ADMIN = "127.0.0.1"
ASKERS = tuple(f"127.0.0.{number}" for number in range(2, 26))

OPERATIONS = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
    ResourceType.TRANSACTIONAL_ID: (4, 8, 15),
}
"""The operations that mean something for each type."""


def entry(
    type: int, name: str, host: str, operation: int, *, pattern: int = 3, deny: bool = False
) -> AclCreation:
    """An entry for everybody at an address."""
    return AclCreation(
        resource_type=type,
        resource_name=name,
        resource_pattern_type=pattern,
        principal="User:ANONYMOUS",
        host=host,
        operation=operation,
        permission_type=PermissionType.DENY if deny else PermissionType.ALLOW,
    )


def open_for_admin(pair: Pair) -> None:
    """Let `ADMIN` do everything, and nobody else anything."""
    entries = [
        entry(type, CLUSTER_NAME if type is ResourceType.CLUSTER else "*", ADMIN, Operation.ALL)
        for type in OPERATIONS
    ]
    pair.set_up(CreateAclsRequest(creations=entries), 3)


def patterns(type: ResourceType, random: Random, world: World) -> Iterator[tuple[str, int]]:
    """Yield texts and kinds of patterns: of everything, of all of the world, of some of it."""
    if type is ResourceType.CLUSTER:
        yield CLUSTER_NAME, PatternType.LITERAL
        return
    names = {
        ResourceType.TOPIC: tuple(TOPICS),
        ResourceType.GROUP: ("empty", "other", "stable-0", "modern", "new-1"),
        ResourceType.TRANSACTIONAL_ID: TRANSACTIONAL_IDS,
    }[type]
    match random.randrange(5):
        case 0:
            yield "*", PatternType.LITERAL
        case 1:
            yield world.prefix, PatternType.PREFIXED
        case 2:
            for name in names:
                if random.random() < 0.5:
                    yield world.topic(name), PatternType.LITERAL
        case 3:
            yield world.prefix + random.choice(names)[:2], PatternType.PREFIXED
        case _:
            yield world.topic(random.choice(names)), PatternType.LITERAL


def entries_of(host: str, random: Random, world: World) -> list[AclCreation]:
    """Return what one client may do: of each type nothing, some operations or all, on some resources."""
    found = []
    for type, operations in OPERATIONS.items():
        chance = random.choice((0.0, 0.15, 0.4, 0.8))
        wanted = [each for each in operations if random.random() < chance]
        if random.random() < 0.1:
            wanted = [Operation.ALL]
        for operation in wanted:
            found += [
                entry(type, name, host, operation, pattern=kind)
                for name, kind in patterns(type, random, world)
            ]
        if random.random() < 0.2:
            found += [
                entry(type, name, host, random.choice((*operations, 2)), pattern=kind, deny=True)
                for name, kind in patterns(type, random, world)
            ]
    return found


class GuardedComparison(Comparison):
    """One run against a pair of brokers with authorizers; `pair` asks from `ADMIN`."""

    def __init__(self, pair: Pair, *, seed: int, names: tuple[str, ...] = ()) -> None:
        super().__init__(pair, seed=seed, names=names)
        self._askers = {host: pair.at(host) for host in ASKERS}
        self.entries: dict[str, list[AclCreation]] = {}

    def choose_asker(self, random: Random) -> None:
        self.asker = self._askers[random.choice(ASKERS)]

    def new_world(self) -> World:
        world = super().new_world()
        self._pair.set_up(DeleteAclsRequest(filters=[_of(host) for host in ASKERS]), 3)
        self.entries = {host: entries_of(host, world.chance, world) for host in ASKERS}
        creations = [each for entries in self.entries.values() for each in entries]
        self._pair.set_up(CreateAclsRequest(creations=creations), 3)
        world.settle()
        return world

    def close(self) -> None:
        """Close the connections of the askers."""
        for each in self._askers.values():
            each.close()


def _of(host: str) -> Any:
    return DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=host,
        operation=1,
        permission_type=1,
    )
