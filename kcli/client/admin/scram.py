"""Admin calls about the SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.client.admin.driver import check, error_of
from kcli.client.network.metadata import ANY, CONTROLLER
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kcli.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from kcli.security.scram import BY_NUMBER, MECHANISMS, SALT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.client.client import Client
    from kcli.protocol.error_codes import KafkaError
    from kcli.security.secret import Secret


class UserCredential(NamedTuple):
    """A credential as brokers tell it: the mechanism by name, or its number if that is unknown."""

    mechanism: str
    iterations: int


async def describe_user_scram_credentials(
    client: Client, users: Sequence[str] = (), *, timeout_ms: int | None = None
) -> dict[str, tuple[UserCredential, ...] | KafkaError]:
    """Return the credentials of some users, or of all that have one. Raises `KafkaError`."""
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in users] or None)
    response: DescribeUserScramCredentialsResponse = await client.request(ANY, request, timeout_ms=timeout_ms)
    check(response.error_code, response.error_message)
    return {
        each.user: error_of(each.error_code, each.error_message)
        or tuple(
            UserCredential(
                BY_NUMBER[info.mechanism].name if info.mechanism in BY_NUMBER else str(info.mechanism),
                info.iterations,
            )
            for info in each.credential_infos
        )
        for each in response.results
    }


async def set_scram_credential(
    client: Client,
    user: str,
    password: Secret,
    *,
    mechanism: str,
    iterations: int,
    timeout_ms: int | None = None,
) -> None:
    """Set the credential of a user for a mechanism. Raises `KafkaError`.

    The password does not leave this process: brokers get its salted hash.
    """
    kind, salt = MECHANISMS[mechanism], os.urandom(SALT_BYTES)
    salted = await trio.to_thread.run_sync(kind.salted_password, password.reveal(), salt, iterations)
    upsertion = ScramCredentialUpsertion(
        name=user, mechanism=kind.number, iterations=iterations, salt=salt, salted_password=salted
    )
    await _alter(client, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]), timeout_ms)


async def delete_scram_credential(
    client: Client, user: str, *, mechanism: str, timeout_ms: int | None = None
) -> None:
    """Remove the credential of a user for a mechanism. Raises `KafkaError`."""
    deletion = ScramCredentialDeletion(name=user, mechanism=MECHANISMS[mechanism].number)
    await _alter(client, AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]), timeout_ms)


async def _alter(client: Client, request: AlterUserScramCredentialsRequest, timeout_ms: int | None) -> None:
    response: AlterUserScramCredentialsResponse = await client.request(
        CONTROLLER, request, timeout_ms=timeout_ms
    )
    for each in response.results:
        check(each.error_code, each.error_message)
