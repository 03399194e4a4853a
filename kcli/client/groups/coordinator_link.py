"""CoordinatorLink: a connection of its own to the coordinator of a group, or of a transactional id.

A broker answers the requests of one connection in order. On a shared connection, a JoinGroup that waits for
other members would delay other requests, and a long fetch would delay this member's heartbeats.
"""

from __future__ import annotations

import math
from itertools import count
from typing import TYPE_CHECKING

from kcli.client.admin.driver import check
from kcli.client.admin.groups import leave_request
from kcli.client.admin.types import MemberToRemove
from kcli.client.client import COORDINATOR
from kcli.client.network.bootstrap import Unreachable
from kcli.client.network.connection import Disconnected
from kcli.client.network.node_links import LinkState
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from kcli.client.client import Client, Coordinators
    from kcli.client.network.connection import Connection
    from kcli.client.network.node_links import NodeLink


LEAVE_SECONDS = 5.0
"""How long a member that leaves waits for the coordinator's response."""

_NUMBERS = count()


class CoordinatorLink:
    """Finds the coordinator of `group_id` and keeps a connection to it.

    With `client.transaction_coordinators` the id is a transactional one.
    """

    def __init__(self, client: Client, group_id: str, coordinators: Coordinators | None = None) -> None:
        self.group_id = group_id
        self._client = client
        self._coordinators = coordinators or client.coordinators
        self._purpose = f"{COORDINATOR} {next(_NUMBERS)}"
        self.node_id: int | None = None
        """The coordinator's id, None while it is unknown."""

    async def connection(self) -> Connection:
        """Return the open connection; raise `KcliError`: `is_passing` tells whether to try again."""
        link = self._known_link()
        if link is None:
            node = await self._coordinators.find(self.group_id)
            self.node_id = node.node_id
            link = self._client.links.get(node.node_id, self._purpose)
        try:
            return await link.ready()
        except KcliError:
            self.forget()
            raise

    def _known_link(self) -> NodeLink | None:
        """Return the link in use, None if there is none or its connection was lost."""
        if self.node_id is None:
            return None
        if self.node_id in self._client.cluster.nodes:
            link = self._client.links.get(self.node_id, self._purpose)
            is_new = link.last_attempt == -math.inf
            if is_new or link.state is not LinkState.DISCONNECTED:
                return link
        self.forget()
        return None

    def forget(self) -> None:
        """Close the connection and look up the coordinator next time; requests in flight fail."""
        if self.node_id is not None:
            self._coordinators.forget(self.group_id)
            self._client.links.drop(self.node_id, self._purpose)
            self.node_id = None

    def close(self) -> None:
        """Close the connection; requests in flight fail. The coordinator stays known."""
        if self.node_id is not None:
            self._client.links.drop(self.node_id, self._purpose)

    async def leave(self, member_id: str, reason: str) -> None:
        """Send LeaveGroup for a member to the known coordinator; raise `KcliError` if it fails."""
        assert self.node_id is not None
        leaving = [MemberToRemove(member_id)]
        response: LeaveGroupResponse = await self._client.request_by_version(
            self.node_id,
            LeaveGroupRequest,
            lambda version: leave_request(self.group_id, leaving, reason, version),
        )
        check(response.error_code)
        for member in response.members:
            check(member.error_code)


_PASSING = frozenset({ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.STALE_MEMBER_EPOCH})
"""Not retriable in Kafka; here the retry uses newer metadata or the epoch of the next heartbeat."""


def is_passing(error: KcliError) -> bool:
    """Return whether a retry may succeed after this error."""
    if isinstance(error, KafkaError):
        return error.code.retriable or error.code in _PASSING
    return isinstance(error, (Disconnected, Unreachable))
