"""Authorizer: decides what principals may do, by the entries in the metadata (class `StandardAuthorizer`).

ConnectionAccess: its verdicts for the principal of one connection, remembered until the entries change.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from kcli.broker.config.security_definitions import split_principals
from kcli.broker.security.audit import Audit, Lines
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.security_records import AccessControlEntryRecord
from kcli.security.acl import AclEntry
from kcli.security.acl_rules import AclRules, Question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.metadata.metadata_image import MetadataDelta, MetadataImage
    from kcli.security.acl import Operation, ResourceType
    from kcli.security.principal import Principal

MOST_NAMES = 10_000
"""The verdicts that one connection remembers."""


class Authorizer:
    """The authorizer of one node; `rules` is another object after each change of the entries.

    Until `is_loaded` it answers only for super users.
    """

    def __init__(
        self,
        *,
        super_users: Iterable[str],
        allow_if_no_entry: bool,
        wall_ms: Callable[[], int],
    ) -> None:
        self.rules = AclRules(super_users=frozenset(super_users), allow_if_no_entry=allow_if_no_entry)
        self.audit = Audit(wall_ms)
        self.is_loaded = False
        self._entries: dict[tuple[object, ...], AclEntry] = {}

    @classmethod
    def of(cls, config: BrokerConfig, wall_ms: Callable[[], int]) -> Authorizer:
        """Return the authorizer of a node with this configuration."""
        return cls(
            super_users=split_principals(config.super_users),
            allow_if_no_entry=config.allow_everyone_if_no_acl_found,
            wall_ms=wall_ms,
        )

    def access_for(self, principal: Principal, host: str) -> ConnectionAccess:
        """Return what a principal at an IP address may do from now on."""
        return ConnectionAccess(self, str(principal), host_text(host))

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take over the entries that a delta names from an image."""
        removed, added = [], []
        for key in delta.changed_security:
            if key[0] is not AccessControlEntryRecord:
                continue
            if (former := self._entries.pop(key, None)) is not None:
                removed.append(former)
            record = image.security.get(key)
            if isinstance(record, AccessControlEntryRecord):
                self._entries[key] = entry = AclEntry.from_record(record)
                added.append(entry)
        if removed or added:
            self.rules = self.rules.changed(removed=removed, added=added)
        self.is_loaded = True

    def check_loaded(self, principal: str) -> None:
        """Raise `KafkaError` for anybody but super users before the entries are known.

        Listeners accept nobody before, so only a request that another node sends could meet it.
        """
        if not self.is_loaded and principal not in self.rules.super_users:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the access control entries are not loaded yet")


class ConnectionAccess:
    """The verdicts for one principal at one host; they are forgotten when the entries change."""

    __slots__ = ("_authorizer", "_lines", "_rules", "_verdicts", "host", "principal")

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self.principal = principal
        self.host = host
        self._authorizer = authorizer
        self._rules = authorizer.rules
        self._verdicts: dict[tuple[int, int, str], bool] = {}
        self._lines = Lines()

    def may(self, operation: Operation, type: ResourceType, name: str) -> bool:
        """Return whether the principal may do this with the resource."""
        if self._rules is not self._authorizer.rules:
            self._forget()
        verdict = self._verdicts.get((operation, type, name))
        return self._decide(operation, type, name) if verdict is None else verdict

    def may_any(self, operation: Operation, type: ResourceType) -> bool:
        """Return whether the principal may do this with at least one resource of the type."""
        self._authorizer.check_loaded(self.principal)
        return self._authorizer.rules.decide_any(self.principal, self.host, operation, type)

    @property
    def notes_allowances(self) -> bool:
        """Whether what is allowed shall be noted, too."""
        return self._authorizer.audit.notes_allowances

    def note(self, api_key: int, operation: Operation, type: ResourceType, name: str, count: int) -> None:
        """Note the verdict about a resource that a request names `count` times."""
        question = Question(self.principal, self.host, operation, type, name)
        decision = self._authorizer.rules.decide(question)
        self._authorizer.audit.note(self._lines, question, decision, api_key=api_key, count=count)

    def _decide(self, operation: Operation, type: ResourceType, name: str) -> bool:
        self._authorizer.check_loaded(self.principal)
        question = Question(self.principal, self.host, operation, type, name)
        verdict = self._authorizer.rules.decide(question).is_allowed
        if len(self._verdicts) >= MOST_NAMES:
            self._verdicts.clear()
        self._verdicts[operation, type, name] = verdict
        return verdict

    def _forget(self) -> None:
        self._rules = self._authorizer.rules
        self._verdicts.clear()


@lru_cache(maxsize=1024)
def host_text(address: str) -> str:
    """Return an IP address as entries have it: that of Java's `InetAddress.getHostAddress`.

    Java writes every group of an IPv6 address: `0:0:0:0:0:0:0:1`.
    """
    if ":" not in address:
        return address
    from ipaddress import IPv6Address  # Few clients have such an address.

    address, percent, zone = address.partition("%")
    groups = IPv6Address(address).exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + zone
