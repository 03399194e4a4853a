"""JoinAttempt: one JoinGroup on its way into a group, whichever protocol the group uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic_answers import refuse_join

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.client_info import ClientInfo
    from kcli.broker.coordinator.effects import Effect, Now, Token
    from kcli.protocol.error_codes import ErrorCode
    from kcli.protocol.messages.join_group import JoinGroupRequest

MEMBER_ID_REQUIRED_FROM = 4


@dataclass(frozen=True, slots=True)
class JoinAttempt:
    """A request and what it is judged by; `new_id` makes a unique text."""

    now: Now
    token: Token
    request: JoinGroupRequest
    version: int
    client: ClientInfo
    config: GroupConfig
    new_id: Callable[[], str]

    @property
    def has_valid_session(self) -> bool:
        """True if the session timeout is within the broker's limits."""
        config = self.config
        session_ms = self.request.session_timeout_ms
        return config.min_session_timeout_ms <= session_ms <= config.max_session_timeout_ms

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the member may take to join again; version 0 does not say, and the session's serves."""
        return self.request.session_timeout_ms if self.version == 0 else self.request.rebalance_timeout_ms

    @property
    def lacks_id(self) -> bool:
        """True for a dynamic member that is to come again with the id it is given (KIP-394)."""
        is_new = not self.request.member_id and self.request.group_instance_id is None
        return is_new and self.version >= MEMBER_ID_REQUIRED_FROM

    def refuse(self, error: ErrorCode) -> list[Effect]:
        """Answer with an error; the client keeps the id that it came with."""
        return refuse_join(self.token, error, self.request.member_id)
