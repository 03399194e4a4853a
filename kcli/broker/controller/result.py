"""ControllerResult: a decision that is not in the log yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kcli.protocol.internal.metadata_records import MetadataRecord
    from kcli.protocol.internal.security_records import SecurityRecord

R_co = TypeVar("R_co", covariant=True)

MAX_RECORDS_PER_OPERATION = 10_000
"""The most records of one user's operation, because it is one batch."""


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[R_co]):
    """The records of a decision, and the response for when they are in the log."""

    records: tuple[MetadataRecord | SecurityRecord, ...]
    response: R_co


def check_batch_size(records: int) -> None:
    """Raise `KafkaError` POLICY_VIOLATION for more records than one operation may write."""
    if records > MAX_RECORDS_PER_OPERATION:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"one request may not make more than {MAX_RECORDS_PER_OPERATION} metadata records",
        )
