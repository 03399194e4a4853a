"""Which changes of SCRAM credentials the controller takes, and what it writes."""

from __future__ import annotations

import pytest

from kcli.broker.controller.scram_control import (
    ScramDeletion,
    ScramUpsertion,
    alter_user_scram_credentials,
)
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE
from kcli.broker.metadata.metadata_replay import apply
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.security_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kcli.security.scram import SHA_256, ScramCredential

DUPLICATE, MISSING = ErrorCode.DUPLICATE_RESOURCE, ErrorCode.RESOURCE_NOT_FOUND
UNACCEPTABLE, UNSUPPORTED = ErrorCode.UNACCEPTABLE_CREDENTIAL, ErrorCode.UNSUPPORTED_SASL_MECHANISM


def upsertion(user: str = "new", mechanism: int = 1, iterations: int = 4096) -> ScramUpsertion:
    return ScramUpsertion(user, mechanism, iterations, b"salt", b"salted")


IMAGE = apply(EMPTY_IMAGE, alter_user_scram_credentials(EMPTY_IMAGE, (), [upsertion("old")]).records)[0]


@pytest.mark.parametrize(
    ("deletions", "upsertions", "codes"),
    [
        ([], [upsertion()], {"new": None}),
        ([], [upsertion(iterations=16_384)], {"new": None}),
        ([], [upsertion(mechanism=2)], {"new": None}),
        ([ScramDeletion("old", 1)], [upsertion()], {"old": None, "new": None}),
        ([ScramDeletion("old", 2)], [], {"old": MISSING}),
        ([ScramDeletion("new", 1)], [upsertion("old")], {"new": MISSING, "old": None}),
        ([], [upsertion("")], {"": UNACCEPTABLE}),
        ([ScramDeletion("", 1)], [], {"": UNACCEPTABLE}),
        ([], [upsertion(iterations=4095)], {"new": UNACCEPTABLE}),
        ([], [upsertion(iterations=16_385)], {"new": UNACCEPTABLE}),
        ([], [upsertion(iterations=-1)], {"new": UNACCEPTABLE}),
        ([], [upsertion(mechanism=0)], {"new": UNSUPPORTED}),
        ([ScramDeletion("old", 3)], [], {"old": UNSUPPORTED}),
        ([ScramDeletion("old", 1)], [upsertion("old")], {"old": DUPLICATE}),
        ([ScramDeletion("old", 1), ScramDeletion("old", 1)], [], {"old": DUPLICATE}),
        ([], [upsertion(), upsertion(mechanism=2)], {"new": DUPLICATE}),
        ([], [upsertion(), upsertion(), upsertion()], {"new": DUPLICATE}),
        ([ScramDeletion("old", 2)], [upsertion("old")], {"old": MISSING}),
        ([], [upsertion(mechanism=9), upsertion()], {"new": UNSUPPORTED}),
    ],
)
def test_what_is_taken(
    deletions: list[ScramDeletion], upsertions: list[ScramUpsertion], codes: dict[str, ErrorCode | None]
) -> None:
    result = alter_user_scram_credentials(IMAGE, deletions, upsertions)
    assert {user: error and error.code for user, error in result.response.items()} == codes
    assert len(result.records) == list(codes.values()).count(None)


def test_the_records_are_those_of_apache_kafka() -> None:
    (record,) = alter_user_scram_credentials(IMAGE, (), [upsertion()]).records
    credential = ScramCredential.of(SHA_256, b"salted", b"salt", 4096)
    assert record == UserScramCredentialRecord(
        name="new",
        mechanism=1,
        salt=b"salt",
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=4096,
    )
    (removal,) = alter_user_scram_credentials(IMAGE, [ScramDeletion("old", 1)], ()).records
    assert removal == RemoveUserScramCredentialRecord(name="old", mechanism=1)
    assert not apply(IMAGE, [removal])[0].security


def test_nothing_shows_a_password() -> None:
    assert repr(upsertion()) == "ScramUpsertion(user='new', mechanism=1)"
