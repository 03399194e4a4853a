"""SCRAM credentials: validation, and the records that set and remove them (class `ScramControlManager`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.controller.result import ControllerResult, check_batch_size
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.security_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kcli.security.scram import BY_NUMBER, MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.internal.security_records import SecurityRecord


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """The credential of a user to remove; `mechanism` is its number."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """The credential of a user to set; the controller derives its keys."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion(user={self.user!r}, mechanism={self.mechanism})"


def alter_user_scram_credentials(
    image: MetadataImage, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
) -> ControllerResult[dict[str, KafkaError | None]]:
    """Set and remove credentials; the response has an error or None for each user.

    Of a user who is named twice nothing changes. His error is that of the first change, if that is wrong.
    """
    changes: list[ScramDeletion | ScramUpsertion] = [*deletions, *upsertions]
    outcomes: dict[str, KafkaError | None] = {}
    records: dict[str, SecurityRecord] = {}
    for change in changes:
        user = change.user
        if outcomes.get(user) is not None:
            continue
        try:
            if records.pop(user, None) is not None:
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"user `{user}` is named twice")
            records[user] = _record(image, change)
            outcomes[user] = None
        except KafkaError as error:
            outcomes[user] = error.detached()
    check_batch_size(len(records))
    return ControllerResult(tuple(records.values()), outcomes)


def _record(image: MetadataImage, change: ScramDeletion | ScramUpsertion) -> SecurityRecord:
    if not change.user:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the name of a user is empty")
    mechanism = BY_NUMBER.get(change.mechanism)
    if mechanism is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"no SCRAM mechanism has the number {change.mechanism}"
        )
    if isinstance(change, ScramDeletion):
        if (UserScramCredentialRecord, change.user, change.mechanism) not in image.security:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND, f"user `{change.user}` has no credential for {mechanism.name}"
            )
        return RemoveUserScramCredentialRecord(name=change.user, mechanism=change.mechanism)
    if not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
        raise KafkaError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"iterations must be {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {change.iterations}",
        )
    credential = ScramCredential.of(mechanism, change.salted_password, change.salt, change.iterations)
    return UserScramCredentialRecord(
        name=change.user,
        mechanism=mechanism.number,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
