"""The leader's side of a fetcher: when its calls have an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kcli.broker.follower_session import FollowerSession

if TYPE_CHECKING:
    from kcli.broker.replica_manager import ReplicaManager


def test_news_that_were_told_before_their_time_came_are_not_waited_for_again() -> None:
    session = FollowerSession(cast("ReplicaManager", None), 2, 7)
    session.news_fell_due()
    assert session.is_due
    assert session.read(1000) == []
    assert not session.is_due
