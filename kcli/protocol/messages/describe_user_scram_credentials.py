"""DescribeUserScramCredentials (key 50): list the SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import i8, i16, i32, message, string, struct


@struct
class UserName:
    name: string


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None


@struct
class CredentialInfo:
    mechanism: i8
    iterations: i32


@struct
class DescribeUserScramCredentialsResult:
    user: string
    error_code: i16 = 0
    error_message: string | None = None
    credential_infos: list[CredentialInfo]


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: string | None = None
    results: list[DescribeUserScramCredentialsResult]
