"""UpdateFeatures (key 57): change the feature levels of the cluster (KIP-584).

Version 1 separates safe from unsafe downgrades and can only validate; version 2 has no result per feature.
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    boolean,
    fresh,
    i8,
    i16,
    i32,
    ignorable,
    message,
    string,
    struct,
    v,
)


@struct
class FeatureUpdateKey:
    feature: string
    max_version_level: i16
    allow_downgrade: Annotated[boolean, v("0")] = False
    upgrade_type: Annotated[i8, v("1+")] = 1


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    timeout_ms: i32 = 60000
    feature_updates: list[FeatureUpdateKey]
    validate_only: Annotated[boolean, v("1+")] = False


@struct
class UpdatableFeatureResult:
    feature: string
    error_code: i16 = 0
    error_message: string | None = None


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: string | None = None
    results: Annotated[list[UpdatableFeatureResult], v("0-1"), ignorable] = fresh(list)
