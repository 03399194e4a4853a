"""Authorizer and ConnectionAccess: what a connection may do while entries come and go; the log of denials."""

from __future__ import annotations

import logging

import pytest

from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.config.loggers import alter_loggers, logger_levels
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, MetadataDelta, MetadataImage
from kcli.broker.metadata.metadata_replay import apply
from kcli.broker.security import authorizer as authorizer_module
from kcli.broker.security.audit import LINES_PER_SECOND, LOGGER, MOST_DENIALS
from kcli.broker.security.authorizer import Authorizer, ConnectionAccess, host_text
from kcli.protocol.configs import ConfigOperation
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.internal.security_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from kcli.security.acl import Operation, ResourceType
from kcli.security.principal import ANONYMOUS, Principal

ALICE = Principal("User", "alice")
READ, WRITE, TOPIC = Operation.READ, Operation.WRITE, ResourceType.TOPIC


class World:
    """An authorizer, the metadata it follows, and a clock."""

    def __init__(self, super_users: tuple[str, ...] = ()) -> None:
        self.now_ms = 5_000
        self.image: MetadataImage = EMPTY_IMAGE
        self.authorizer = Authorizer(
            super_users=super_users, allow_if_no_entry=False, wall_ms=lambda: self.now_ms
        )

    def load(self) -> None:
        self.authorizer.apply(MetadataDelta.from_nothing(self.image), self.image)

    def change(self, *records: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> None:
        self.image, delta = apply(self.image, records)
        self.authorizer.apply(delta, self.image)

    def access(self, principal: Principal = ALICE, host: str = "127.0.0.1") -> ConnectionAccess:
        return self.authorizer.access_for(principal, host)


def record(
    number: int = 1, *, name: str = "t", host: str = "*", permission: int = 3
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=number.to_bytes(16, "big"), resource_type=2, resource_name=name, pattern_type=3,
        principal="User:alice", host=host, operation=3, permission_type=permission,
    )  # fmt: skip


def test_a_connection_follows_the_entries() -> None:
    world = World()
    world.load()
    access = world.access()
    assert not access.may(READ, TOPIC, "t")
    world.change(record())
    assert access.may(READ, TOPIC, "t")
    assert not world.access(ANONYMOUS).may(READ, TOPIC, "t")
    world.change(record(2, permission=2))
    assert not access.may(READ, TOPIC, "t")
    world.change(RemoveAccessControlEntryRecord(id=record(2).id))
    assert access.may(READ, TOPIC, "t")
    world.change(record(1, name="other"))
    assert not access.may(READ, TOPIC, "t")
    assert access.may(READ, TOPIC, "other")
    assert access.may_any(READ, TOPIC)
    assert not access.may_any(WRITE, TOPIC)


def test_a_delta_about_something_else_leaves_the_rules() -> None:
    world = World()
    world.change(record())
    rules = world.authorizer.rules
    world.authorizer.apply(MetadataDelta(), world.image)
    assert world.authorizer.rules is rules


def test_before_the_first_image_only_super_users_pass() -> None:
    world = World(("User:alice",))
    assert world.access().may(READ, TOPIC, "t")
    assert world.access().may_any(READ, TOPIC)
    other = world.access(ANONYMOUS)
    with pytest.raises(KafkaError):
        other.may(READ, TOPIC, "t")
    with pytest.raises(KafkaError):
        other.may_any(READ, TOPIC)
    world.load()
    assert not other.may(READ, TOPIC, "t")


def test_a_connection_remembers_a_bounded_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer_module, "MOST_NAMES", 10)
    world = World()
    world.change(record())
    access = world.access()
    for index in range(25):
        assert not access.may(READ, TOPIC, f"u{index}")
    assert len(access._verdicts) == 5
    assert access.may(READ, TOPIC, "t")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::12%eth0", "fe80:0:0:0:0:0:0:12%eth0"),
        ("2001:DB8::a0:0:1", "2001:db8:0:0:0:a0:0:1"),
    ],
)
def test_hosts_are_compared_as_java_writes_them(address: str, text: str) -> None:
    assert host_text(address) == text
    world = World()
    world.change(record(host=text))
    assert world.access(host=address).may(READ, TOPIC, "t")


def test_denials_are_logged_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.change(record(permission=2))
    access = world.access()
    with caplog.at_level(logging.INFO, LOGGER):
        access.note(1, READ, TOPIC, "t", 2)
        access.note(0, WRITE, TOPIC, "t", 1)
    assert [each.getMessage() for each in caplog.records] == [
        "Principal = User:alice is Denied operation = READ from host = 127.0.0.1 on resource = "
        "Topic:LITERAL:t for request = Fetch with resourceRefCount = 2 based on rule "
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=t, patternType=LITERAL, "
        "principal=User:alice, host=*, operation=READ, permissionType=DENY])",
        "Principal = User:alice is Denied operation = WRITE from host = 127.0.0.1 on resource = "
        "Topic:LITERAL:t for request = Produce with resourceRefCount = 1 based on rule DefaultDeny",
    ]
    assert [each.to_json() for each in world.authorizer.audit.denials][1] == {
        "number": 2,
        "time_ms": 5000,
        "principal": "User:alice",
        "host": "127.0.0.1",
        "operation": "Write",
        "resource_type": "Topic",
        "resource_name": "t",
        "api": "Produce",
        "count": 1,
        "rule": "DefaultDeny",
    }


def test_allowances_are_logged_only_where_somebody_debugs(caplog: pytest.LogCaptureFixture) -> None:
    world = World(("User:alice",))
    world.load()
    access = world.access()
    with caplog.at_level(logging.INFO, LOGGER):
        assert not access.notes_allowances
    with caplog.at_level(logging.DEBUG, LOGGER):
        assert access.notes_allowances
        access.note(3, Operation.DESCRIBE, TOPIC, "t", 1)
    (line,) = [each.getMessage() for each in caplog.records]
    assert line.endswith("for request = Metadata with resourceRefCount = 1 based on rule SuperUser")
    assert list(world.authorizer.audit.denials) == []


def test_a_connection_cannot_flood_the_log_and_memory_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.load()
    access = world.access()
    with caplog.at_level(logging.INFO, LOGGER):
        for _ in range(LINES_PER_SECOND + 150):
            access.note(1, READ, TOPIC, "t", 1)
        assert len(caplog.records) == LINES_PER_SECOND
        world.access().note(1, READ, TOPIC, "t", 1)
        assert len(caplog.records) == LINES_PER_SECOND + 1
        world.now_ms += 1000
        access.note(1, READ, TOPIC, "t", 1)
    assert caplog.records[-2].getMessage() == "150 more decisions about User:alice are not shown"
    denials = world.authorizer.audit.denials
    assert len(denials) == MOST_DENIALS
    assert denials[-1].number == LINES_PER_SECOND + 152


def test_the_level_of_the_log_can_be_altered_while_the_broker_runs() -> None:
    assert logger_levels()[LOGGER] == logger_levels()["root"]
    alter_loggers([ConfigChange(LOGGER, ConfigOperation.SET, "DEBUG")], validate_only=False)
    try:
        world = World()
        assert world.access().notes_allowances
        assert logger_levels()[LOGGER] == "DEBUG"
    finally:
        alter_loggers([ConfigChange(LOGGER, ConfigOperation.DELETE)], validate_only=False)
    assert not world.access().notes_allowances
