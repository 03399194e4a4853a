"""Access control entries: validation, and the records that add and remove them (class `AclControlManager`).

All valid entries of a request are added in one batch, and all that its filters find are removed in one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.controller.result import MAX_RECORDS_PER_OPERATION, ControllerResult
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.security_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from kcli.security.acl import (
    CLUSTER_NAME,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.internal.security_records import SecurityRecord


def entries_of(image: MetadataImage) -> Mapping[bytes, AclEntry]:
    """Return the access control entries by id."""
    return {
        record.id: AclEntry.from_record(record)
        for record in image.security.values()
        if isinstance(record, AccessControlEntryRecord)
    }


def create_acls(
    image: MetadataImage, entries: Sequence[AclEntry], *, new_id: Callable[[], bytes]
) -> ControllerResult[list[KafkaError | None]]:
    """Add entries; the response has an error or None for each. One that exists is added without a record.

    Raises `KafkaError` INVALID_REQUEST if a request adds more than one batch of records holds.
    """
    existing = set(entries_of(image).values())
    records: list[SecurityRecord] = []
    outcomes: list[KafkaError | None] = []
    for entry in entries:
        wrong = _wrong(entry)
        outcomes.append(None if wrong is None else KafkaError(ErrorCode.INVALID_REQUEST, wrong))
        if wrong is None and entry not in existing:
            existing.add(entry)
            records.append(_record(new_id(), entry))
    _check_count(len(records), "add")
    return ControllerResult(tuple(records), outcomes)


def delete_acls(
    image: MetadataImage, filters: Sequence[AclFilter]
) -> ControllerResult[list[list[AclEntry] | KafkaError]]:
    """Remove the entries that filters find; the response has them, or an error, for each filter.

    An entry that two filters find is in the response of both. Raises `KafkaError` INVALID_REQUEST if the
    filters find more entries than one batch of records can remove.
    """
    entries = entries_of(image)
    found: dict[bytes, None] = {}
    outcomes: list[list[AclEntry] | KafkaError] = []
    for each in filters:
        if 0 in (each.resource_type, each.pattern_type, each.operation, each.permission):
            outcomes.append(KafkaError(ErrorCode.INVALID_REQUEST, "a filter has an unknown number"))
            continue
        own = [id for id, entry in entries.items() if each.matches(entry)]
        found.update(dict.fromkeys(own))
        outcomes.append([entries[id] for id in own])
    _check_count(len(found), "remove")
    return ControllerResult(tuple(RemoveAccessControlEntryRecord(id=id) for id in found), outcomes)


def _wrong(entry: AclEntry) -> str | None:
    """Return what makes an entry invalid, None for a valid one."""
    if entry.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"no entry is about resources of type {entry.resource_type.name}"
    if not entry.resource_name:
        return "the name of a resource is empty"
    if entry.resource_type is ResourceType.CLUSTER and entry.resource_name != CLUSTER_NAME:
        return f"the only resource of type CLUSTER is `{CLUSTER_NAME}`"
    if entry.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"the pattern of an entry is LITERAL or PREFIXED, not {entry.pattern_type.name}"
    if entry.operation in (Operation.UNKNOWN, Operation.ANY):
        return f"no entry is about the operation {entry.operation.name}"
    if entry.permission not in (PermissionType.ALLOW, PermissionType.DENY):
        return f"an entry allows or denies, {entry.permission.name} is neither"
    if ":" not in entry.principal:
        return f"`{entry.principal}` is not a principal, as in `User:alice`"
    return None


def _record(id: bytes, entry: AclEntry) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=id,
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _check_count(count: int, verb: str) -> None:
    if count > MAX_RECORDS_PER_OPERATION:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"one request may not {verb} more than {MAX_RECORDS_PER_OPERATION} access control entries",
        )
