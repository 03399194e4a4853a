"""Calls to leaders, and a request that cannot be encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from kcli.client import admin
from kcli.client.client import connect
from kcli.protocol.schema.declaration import EncodeError
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from pathlib import Path


async def test_an_offset_that_no_request_holds_is_not_asked_for_again(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, connect(",".join(cluster.bootstrap_servers)) as client:
        await admin.create_topics(client, [admin.NewTopic("orders", partitions=1)])
        partition = admin.TopicPartition("orders", 0)
        began = trio.current_time()
        with pytest.RaisesGroup(EncodeError, flatten_subgroups=True):
            await admin.delete_records(client, {partition: 2**63})
        with pytest.RaisesGroup(EncodeError, flatten_subgroups=True):
            await admin.list_offsets(client, {partition: 2**63})
        assert trio.current_time() - began < 20
