"""DescribeUserScramCredentials, AlterUserScramCredentials: the SCRAM credentials of users (KIP-554).

Salts and keys are never told, only mechanisms and iterations.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcli.broker.controller.scram_control import ScramDeletion, ScramUpsertion
from kcli.broker.network.authorization import authorize_cluster
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.security_records import UserScramCredentialRecord
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kcli.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kcli.security.acl import Operation

if TYPE_CHECKING:
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
    from kcli.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest


def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """Return the credentials of the named users, or of all."""
    _refuse_tokens(context)
    authorize_cluster(context, Operation.DESCRIBE)
    found: dict[str, list[CredentialInfo]] = {}
    for record in context.node.image.security.values():
        if isinstance(record, UserScramCredentialRecord):
            info = CredentialInfo(mechanism=record.mechanism, iterations=record.iterations)
            found.setdefault(record.name, []).append(info)
    if not request.users:
        return DescribeUserScramCredentialsResponse(results=[_known(*each) for each in found.items()])
    counts = Counter(each.name for each in request.users)
    return DescribeUserScramCredentialsResponse(
        results=[_result(name, count, found.get(name)) for name, count in counts.items()]
    )


def _result(name: str, count: int, infos: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"user `{name}` is named twice",
            credential_infos=[],
        )
    if infos is None:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"user `{name}` has no credential",
            credential_infos=[],
        )
    return _known(name, infos)


def _known(name: str, infos: list[CredentialInfo]) -> DescribeUserScramCredentialsResult:
    ordered = sorted(infos, key=lambda info: info.mechanism)
    return DescribeUserScramCredentialsResult(user=name, credential_infos=ordered)


def failed_describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, error: KafkaError
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        error_code=error.code, error_message=error.message, results=[]
    )


def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    """Set and remove credentials; the response has a row for each user."""
    _refuse_tokens(context)
    authorize_cluster(context, Operation.ALTER)
    outcomes = context.node.controller.alter_user_scram_credentials(
        [ScramDeletion(each.name, each.mechanism) for each in request.deletions],
        [
            ScramUpsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
            for each in request.upsertions
        ],
    )
    return AlterUserScramCredentialsResponse(
        results=[_altered(user, error) for user, error in outcomes.items()]
    )


def failed_alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys(
        [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    )
    return AlterUserScramCredentialsResponse(results=[_altered(user, error) for user in users])


def _altered(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=user)
    return AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)


def _refuse_tokens(context: RequestContext) -> None:
    """Raise `KafkaError` for who logged in by a delegation token: it could outlive itself."""
    if context.principal.is_token:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
