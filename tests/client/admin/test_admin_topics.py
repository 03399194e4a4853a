"""Describing topics, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.client import admin
from kcli.client.client import connect
from kcli.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_a_topic_is_described_in_as_many_answers_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster(tmp_path) as cluster, connect(",".join(cluster.bootstrap_servers)) as client:
        await admin.create_topics(client, [admin.NewTopic("orders", partitions=5)])
        pages = []
        send = client.request

        async def noted(target: int, request: Any, **options: Any) -> Any:
            if isinstance(request, DescribeTopicPartitionsRequest):
                pages.append(request.cursor.partition_index if request.cursor else 0)
            return await send(target, request, **options)

        monkeypatch.setattr(client, "request", noted)
        for limit, expected in ((2, [0, 2, 4]), (2000, [0])):
            pages.clear()
            answer = await admin.describe_topics(client, ["orders"], partitions_per_answer=limit)
            described = answer["orders"]
            assert isinstance(described, admin.TopicDescription)
            assert [each.partition for each in described.partitions] == [0, 1, 2, 3, 4]
            assert pages == expected
