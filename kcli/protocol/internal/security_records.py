"""Records of the metadata log that kcli's broker does not write: credentials, access control, migration.

One class per published schema, as in `metadata_records`.
"""

from __future__ import annotations

from typing import Any

from kcli.protocol.schema.declaration import bytes_, i8, i32, i64, message_info, record, string, uuid


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
