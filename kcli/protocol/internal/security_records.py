"""Records of the metadata log that kcli's broker does not write: credentials, access control, migration.

One class per published schema, as in `metadata_records`. A broker keeps those that Apache Kafka wrote.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kcli.protocol.schema.declaration import bytes_, i8, i32, i64, message_info, record, string, uuid

if TYPE_CHECKING:
    from collections.abc import Iterable


@record(type=10, versions="0", flexible="0+")
class DelegationTokenRecord:
    """A delegation token, without its secret (KIP-900)."""

    owner: string
    requester: string
    renewers: list[string]
    issue_timestamp: i64
    max_timestamp: i64
    expiration_timestamp: i64
    token_id: string


@record(type=11, versions="0", flexible="0+")
class UserScramCredentialRecord:
    """The SCRAM credential of a user (KIP-900)."""

    name: string
    mechanism: i8
    salt: bytes_
    stored_key: bytes_
    server_key: bytes_
    iterations: i32


@record(type=18, versions="0", flexible="0+")
class AccessControlEntryRecord:
    id: uuid
    resource_type: i8
    resource_name: string
    pattern_type: i8
    principal: string
    host: string
    operation: i8
    permission_type: i8


@record(type=19, versions="0", flexible="0+")
class RemoveAccessControlEntryRecord:
    id: uuid


@record(type=21, versions="0", flexible="0+")
class ZkMigrationStateRecord:
    """The state of the migration from ZooKeeper."""

    zk_migration_state: i8


@record(type=22, versions="0", flexible="0+")
class RemoveUserScramCredentialRecord:
    name: string
    mechanism: i8


@record(type=26, versions="0", flexible="0+")
class RemoveDelegationTokenRecord:
    token_id: string


SecurityRecord = (
    DelegationTokenRecord
    | UserScramCredentialRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | ZkMigrationStateRecord
    | RemoveUserScramCredentialRecord
    | RemoveDelegationTokenRecord
)

SECURITY_RECORDS: dict[int, type[Any]] = {message_info(cls).key: cls for cls in SecurityRecord.__args__}

_REMOVALS = {
    RemoveAccessControlEntryRecord: AccessControlEntryRecord,
    RemoveUserScramCredentialRecord: UserScramCredentialRecord,
    RemoveDelegationTokenRecord: DelegationTokenRecord,
}


def removed_class(record: SecurityRecord) -> type[Any] | None:
    """Return the class of the record that this one removes, None for a record that sets something."""
    return _REMOVALS.get(type(record))


def identity(record: SecurityRecord) -> tuple[object, ...]:
    """Return what tells a record from others of its kind; a removal has that of what it removes."""
    match record:
        case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
            return (record.id,)
        case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
            return record.name, record.mechanism
        case DelegationTokenRecord() | RemoveDelegationTokenRecord():
            return (record.token_id,)
        case ZkMigrationStateRecord():
            return ()


_NOUNS = {
    AccessControlEntryRecord: ("access control entry", "access control entries"),
    UserScramCredentialRecord: ("SCRAM credential", "SCRAM credentials"),
    DelegationTokenRecord: ("delegation token", "delegation tokens"),
}


def counted(records: Iterable[SecurityRecord]) -> list[str]:
    """Return how many of each kind there are, for a message."""
    numbers = Counter(map(type, records))
    return [f"{numbers[cls]} {nouns[numbers[cls] > 1]}" for cls, nouns in _NOUNS.items() if numbers[cls]]
