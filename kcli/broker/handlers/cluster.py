"""DescribeCluster: the cluster's id, controller and brokers (KIP-700, KIP-919, KIP-1073).

Brokers are listed with the address of the listener that the request came in on, fenced ones only if asked
for (version 2). Every node may be the controller, has no other listener for that, and passes on what only the
controller can do: so the endpoints of controllers (type 2) are the same, for tools that are given
`--bootstrap-controller`. A broker of Kafka refuses this type, as its controllers listen elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.metadata import CLUSTER_OPERATIONS, NOT_ASKED_FOR, known_controller
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.describe_cluster import DescribeClusterRequest

_BROKERS, _CONTROLLERS = 1, 2


def describe_cluster(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Answer from the metadata image."""
    broker = context.broker
    if request.endpoint_type not in (_BROKERS, _CONTROLLERS):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {request.endpoint_type}"
        )
    image, listener_name = broker.image, context.listener_name
    brokers = [
        DescribeClusterBroker(
            broker_id=registration.node_id,
            host=endpoint.host,
            port=endpoint.port,
            rack=registration.rack,
            is_fenced=registration.fenced,
        )
        for registration, endpoint in image.brokers_with_listener(listener_name)
        if request.include_fenced_brokers or not registration.fenced
    ]
    return DescribeClusterResponse(
        endpoint_type=request.endpoint_type,
        cluster_id=broker.cluster_id,
        controller_id=known_controller(context, image.reachable_brokers(listener_name)),
        brokers=brokers,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED_FOR
        ),
    )


def failed(request: DescribeClusterRequest, error: KafkaError) -> DescribeClusterResponse:
    """Answer with an error."""
    return DescribeClusterResponse(
        error_code=error.code, error_message=error.message, cluster_id="", brokers=[]
    )
