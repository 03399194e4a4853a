"""ApiVersions: the API table as clients see it (KIP-35, KIP-511, KIP-584).

* The engine answers an unknown version of ApiVersions in version 0 with UNSUPPORTED_VERSION and its own
  range; the connection stays open.
* From version 3 the client names its software; a malformed name or version is INVALID_REQUEST.
* Version 3 cannot carry a supported feature whose lowest level is 0, so it leaves it out (KAFKA-17492).
* The finalized features are those of the metadata image, and their epoch is its offset.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kcli.broker.controller.feature_control import SUPPORTED_FEATURES
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kcli.protocol.schema.declaration import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.broker.network.apis import Api
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.api_versions import ApiVersionsRequest

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse | bytes:
    """Return every API in the table."""
    version = context.api_version
    if version >= 3:
        name, software_version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(software_version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    image = context.node.image
    cache = context.node.replica_manager.encoded_metadata
    key = ("api versions", version)
    body = cache.get(key, image)
    if body is None:
        response = _response(context.apis, image.features, image.offset, version)
        body = cache.put(key, image, codec(ApiVersionsResponse, version).encode(response))
    return body


def _response(
    apis: Iterable[Api], finalized: Mapping[str, int], features_epoch: int, version: int
) -> ApiVersionsResponse:
    supported = {name: (0, level) for name, level in finalized.items()} | dict(SUPPORTED_FEATURES)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
            for api in sorted(apis, key=lambda api: api.key)
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in sorted(supported.items())
            if version >= 4 or lowest > 0
        ],
        finalized_features_epoch=features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(finalized.items())
        ],
    )
