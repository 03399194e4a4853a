"""ApiVersions (key 18): which versions of which APIs the broker speaks (KIP-35).

Version 1 adds the throttle time, 3 the client's software and, in tags, the cluster's features (KIP-511,
KIP-584). Version 4 can carry features with a lowest level of 0, which version 3 cannot. The response header
never has tags, in any version (`kcli.protocol.frames`).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    boolean,
    fresh,
    i16,
    i32,
    i64,
    ignorable,
    message,
    string,
    struct,
    tag,
    v,
)


@message(key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    client_software_name: Annotated[string, v("3+"), ignorable] = ""
    client_software_version: Annotated[string, v("3+"), ignorable] = ""


@struct
class ApiVersion:
    api_key: i16
    min_version: i16
    max_version: i16


@struct
class SupportedFeatureKey:
    name: string
    min_version: i16
    max_version: i16


@struct
class FinalizedFeatureKey:
    name: string
    max_version_level: i16
    min_version_level: i16


@message(key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    error_code: i16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: Annotated[i32, v("1+"), ignorable] = 0
    supported_features: Annotated[list[SupportedFeatureKey], v("3+"), tag(0), ignorable] = fresh(list)
    finalized_features_epoch: Annotated[i64, v("3+"), tag(1), ignorable] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], v("3+"), tag(2), ignorable] = fresh(list)
    zk_migration_ready: Annotated[boolean, v("3+"), tag(3), ignorable] = False
