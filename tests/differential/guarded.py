"""The comparison with authorizers: clients of many names and addresses, with random access control entries.

Clients log in by SASL/PLAIN, but for ANONYMOUS, who comes through the listener without logins. The world is
built by `admin`, a super user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kcli.security.acl import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from tests.differential.run import Comparison
from tests.differential.sides import Pair, Side
from tests.differential.world import TOPICS, TRANSACTIONAL_IDS
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tests.differential.world import World

ADMIN = "admin"
NAMED = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
"""Users with entries of their own."""
UNNAMED = ("ivan", "judy")
"""Users whom only entries for everybody are about."""
HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
PASSWORD = "s3cret"


class Asker(NamedTuple):
    """A client: its name, None for ANONYMOUS, and its address."""

    user: str | None
    host: str

    @property
    def principal(self) -> str:
        return f"User:{self.user or 'ANONYMOUS'}"


ASKERS = tuple(Asker(user, host) for user in (None, *NAMED) for host in HOSTS) + tuple(
    Asker(user, HOSTS[0]) for user in (ADMIN, *UNNAMED)
)

OPERATIONS = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
    ResourceType.TRANSACTIONAL_ID: (4, 8, 15),
}
"""The operations that mean something for each type."""

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Ports(NamedTuple):
    """The ports of a broker's listeners; kcli has none for controllers."""

    plain: int
    sasl: int
    controller: int = 0

    @classmethod
    def free(cls) -> Ports:
        """Return ports that nobody has."""
        return cls(free_port(), free_port(), free_port())

    @property
    def addresses(self) -> tuple[str, str]:
        """Where clients come without and with a login."""
        return f"127.0.0.1:{self.plain}", f"127.0.0.1:{self.sasl}"

    @property
    def settings(self) -> dict[str, str]:
        """Return the properties of the listeners and of the authorizer, for either broker."""
        users = " ".join(f'user_{name}="{PASSWORD}"' for name in (ADMIN, *NAMED, *UNNAMED))
        jaas = f"{_PLAIN} required {users};"
        plain, sasl = self.addresses
        return {
            "listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{sasl}",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
        }

    @property
    def apache_settings(self) -> dict[str, str]:
        """Return the same with a controller, to which the broker logs in as `admin`, as to itself."""
        common = self.settings
        name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
        # The broker asks itself about transactions, too.
        own = common[name].replace("required", f'required username="{ADMIN}" password="{PASSWORD}"')
        return {
            **common,
            name: own,
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "advertised.listeners": common["listeners"],
            "listeners": f"{common['listeners']},CONTROLLER://127.0.0.1:{self.controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller}",
            "listener.security.protocol.map": (
                "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": own,
        }


class GuardedPair(Pair):
    """Both brokers as `admin` sees them."""

    def __init__(self, apache: Ports, kcli: Ports) -> None:
        super().__init__(apache.addresses[1], kcli.addresses[1])
        for side in self.sides:
            side.become((ADMIN, PASSWORD), HOSTS[0])
        self._plain = apache.addresses[0], kcli.addresses[0]

    def seen_by(self, asker: Asker) -> Pair:
        """Return both brokers as another client sees them; what one learns, all know."""
        other = Pair("", "")
        other.foreign_topics, other._numbers = self.foreign_topics, self._numbers
        other.apache, other.kcli = (
            _as_client(side, plain, asker) for side, plain in zip(self.sides, self._plain, strict=True)
        )
        return other


def _as_client(side: Side, plain: str, asker: Asker) -> Side:
    other = Side(side.name, plain if asker.user is None else side.bootstrap)
    other.ids, other.symbols = side.ids, side.symbols
    other.become(None if asker.user is None else (asker.user, PASSWORD), asker.host)
    return other


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


def entries_of(principal: str, random: Random, world: World) -> Iterator[AclCreation]:
    """Yield what a principal may do: of each type nothing, some operations or all, on some resources."""

    def entries(type: ResourceType, operation: int, permission: PermissionType) -> Iterator[AclCreation]:
        for name, kind in patterns(type, random, world):
            yield AclCreation(
                resource_type=type,
                resource_name=name,
                resource_pattern_type=kind,
                principal=principal,
                host=random.choice(("*", "*", *HOSTS)),
                operation=operation,
                permission_type=permission,
            )

    is_of_all = principal == "User:*"
    for type, operations in OPERATIONS.items():
        chance = random.choice((0.0, 0.05) if is_of_all else (0.0, 0.15, 0.4, 0.8))
        wanted = [each for each in operations if random.random() < chance]
        if random.random() < (0.0 if is_of_all else 0.1):
            wanted = [Operation.ALL]
        for operation in wanted:
            yield from entries(type, operation, PermissionType.ALLOW)
        if random.random() < 0.2:
            yield from entries(type, random.choice((*operations, 2)), PermissionType.DENY)


class GuardedComparison(Comparison):
    """One run against a pair of brokers with authorizers."""

    def __init__(self, pair: GuardedPair, *, seed: int, names: tuple[str, ...] = ()) -> None:
        super().__init__(pair, seed=seed, names=names)
        self._askers = {asker: pair.seen_by(asker) for asker in ASKERS}
        self.asked: set[Asker] = set()

    def choose_asker(self, random: Random) -> None:
        chosen = random.choice(ASKERS)
        self.asked.add(chosen)
        self.asker = self._askers[chosen]

    def new_world(self) -> World:
        world = super().new_world()
        self._pair.set_up(DeleteAclsRequest(filters=[_every_entry()]), 3)
        principals = dict.fromkeys([*(asker.principal for asker in ASKERS), "User:*"])
        for unnamed in (ADMIN, *UNNAMED):
            del principals[f"User:{unnamed}"]
        creations = [each for name in principals for each in entries_of(name, world.chance, world)]
        self._pair.set_up(CreateAclsRequest(creations=creations), 3)
        world.settle()
        return world

    def close(self) -> None:
        """Close the connections, those of the askers too."""
        super().close()
        for each in self._askers.values():
            each.close()


def _every_entry() -> Any:
    return DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
