"""UnregisterBroker, UpdateFeatures: what the cluster consists of, and what it works at.

* A broker that is unregistered while it runs registers again with its next start, as Apache Kafka's does.
* UpdateFeatures changes all features or none (KIP-584); the error is that of the first that cannot be.
* Version 0 tells only whether a level may go down, later ones how (KIP-778). From version 2 on there is one
  answer for all features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.controller.feature_control import FeatureUpdate, UpgradeType
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.unregister_broker import UnregisterBrokerResponse
from kcli.protocol.messages.update_features import UpdatableFeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest
    from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


def unregister_broker(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    """Forget a broker for good."""
    context.broker.controller.unregister_broker(node_id=request.broker_id)
    return UnregisterBrokerResponse()


def failed_unregister_broker(request: UnregisterBrokerRequest, error: KafkaError) -> UnregisterBrokerResponse:
    """Answer with an error."""
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)


def update_features(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    """Change the levels of features, or with `validate_only` say whether they could be changed."""
    if not request.feature_updates:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "there are no features to update")
    version = context.api_version
    context.broker.controller.update_features(
        [
            FeatureUpdate(each.feature, each.max_version_level, _upgrade_type(each, version))
            for each in request.feature_updates
        ],
        validate_only=request.validate_only,
    )
    answered = request.feature_updates if version <= 1 else ()
    return UpdateFeaturesResponse(results=[UpdatableFeatureResult(feature=each.feature) for each in answered])


def failed_update_features(request: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    """Answer with an error."""
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)


def _upgrade_type(update: FeatureUpdateKey, version: int) -> UpgradeType:
    if version == 0:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    if update.upgrade_type not in set(UpgradeType):
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"there is no upgrade type {update.upgrade_type}, as `{update.feature}` is given",
        )
    return UpgradeType(update.upgrade_type)
