"""Access control entries: what the controller writes, and what it refuses."""

from __future__ import annotations

from itertools import count

import pytest

from kcli.broker.controller import acl_control
from kcli.broker.controller.result import MAX_RECORDS_PER_OPERATION
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, MetadataImage
from kcli.broker.metadata.metadata_replay import apply
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.security_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from kcli.security.acl import AclEntry, AclFilter, Operation, PatternType, PermissionType, ResourceType

READ = AclEntry(
    ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, PermissionType.ALLOW
)
WRITE = READ._replace(operation=Operation.WRITE)


def id_of(index: int) -> bytes:
    return index.to_bytes(16, "big")


def created(image: MetadataImage, *entries: AclEntry) -> tuple[MetadataImage, list[KafkaError | None]]:
    numbers = count(len(image.security))
    result = acl_control.create_acls(image, entries, new_id=lambda: id_of(next(numbers)))
    return apply(image, result.records)[0], result.response


def test_an_entry_becomes_a_record_and_one_that_exists_does_not() -> None:
    image, outcomes = created(EMPTY_IMAGE, READ, WRITE, READ)
    assert outcomes == [None, None, None]
    assert list(acl_control.entries_of(image).values()) == [READ, WRITE]
    assert image.security[AccessControlEntryRecord, id_of(0)] == AccessControlEntryRecord(
        id=id_of(0), resource_type=2, resource_name="t", pattern_type=3, principal="User:a", host="*",
        operation=3, permission_type=3,
    )  # fmt: skip
    again, outcomes = created(image, READ)
    assert outcomes == [None]
    assert again.security == image.security


@pytest.mark.parametrize(
    "wrong",
    [
        READ._replace(resource_type=ResourceType.ANY),
        READ._replace(resource_type=ResourceType.UNKNOWN),
        READ._replace(resource_type=ResourceType.CLUSTER),
        READ._replace(resource_name=""),
        READ._replace(pattern_type=PatternType.ANY),
        READ._replace(pattern_type=PatternType.MATCH),
        READ._replace(operation=Operation.ANY),
        READ._replace(operation=Operation.UNKNOWN),
        READ._replace(permission=PermissionType.ANY),
        READ._replace(principal="alice"),
    ],
)
def test_an_invalid_entry_is_refused_and_the_others_are_written(wrong: AclEntry) -> None:
    image, outcomes = created(EMPTY_IMAGE, READ, wrong, WRITE)
    assert [outcome and outcome.code for outcome in outcomes] == [None, ErrorCode.INVALID_REQUEST, None]
    assert list(acl_control.entries_of(image).values()) == [READ, WRITE]


def test_filters_remove_what_they_find_and_tell_it_twice_if_two_find_it() -> None:
    other = READ._replace(resource_name="other")
    image, _ = created(EMPTY_IMAGE, READ, WRITE, other)
    result = acl_control.delete_acls(
        image,
        [AclFilter(operation=Operation.READ), AclFilter(resource_name="t"), AclFilter(host="nowhere")],
    )
    assert result.response == [[READ, other], [READ, WRITE], []]
    assert result.records == tuple(RemoveAccessControlEntryRecord(id=id_of(index)) for index in (0, 2, 1))
    assert acl_control.entries_of(apply(image, result.records)[0]) == {}


def test_a_request_writes_one_batch_or_nothing() -> None:
    many = [READ._replace(resource_name=str(index)) for index in range(MAX_RECORDS_PER_OPERATION + 1)]
    with pytest.raises(KafkaError) as refused:
        created(EMPTY_IMAGE, *many)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    image, _ = created(EMPTY_IMAGE, *many[:-1])
    image, _ = created(image, many[-1])
    with pytest.raises(KafkaError):
        acl_control.delete_acls(image, [AclFilter()])
    assert len(acl_control.delete_acls(image, [AclFilter(resource_name="7")]).records) == 1
