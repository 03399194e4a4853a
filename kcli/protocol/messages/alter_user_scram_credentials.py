"""AlterUserScramCredentials (key 51): set and remove the SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import bytes_, i8, i16, i32, message, string, struct


@struct
class ScramCredentialDeletion:
    name: string
    mechanism: i8


@struct
class ScramCredentialUpsertion:
    name: string
    mechanism: i8
    iterations: i32
    salt: bytes_
    salted_password: bytes_


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


@struct
class AlterUserScramCredentialsResult:
    user: string
    error_code: i16 = 0
    error_message: string | None = None


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    throttle_time_ms: i32 = 0
    results: list[AlterUserScramCredentialsResult]
