"""Fetch in old versions: formats, codecs and errors that their clients know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.messages.fetch import FetchPartition
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.message_set import LegacyEntry
from kcli.storage.log.file_records import FileSlice
from tests.broker.records import fetch_request, fetched, fill, offsets
from tests.broker.single_node import connected, running_node

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
async def test_old_versions_get_old_formats(version: int, magic: int, codec: Codec, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", partitions=2)
        for index in (0, 1):
            await fill(client, "t", b"a" * 100, b"b", b"c", index=index, codec=codec)
        request = fetch_request("t", 1, max_bytes=1)
        request.topics[0].partitions.append(
            FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1)
        )
        rows = (await client.ask(request, version)).responses[0].partitions
        # Each partition gives at least one entry that is whole.
        assert [offsets(row) for row in rows] == [[1], [0]]
        for row in rows:
            assert all(
                isinstance(entry, LegacyEntry) and entry.magic == magic
                for entry in iter_batches(bytes(row.records))
            )


@pytest.mark.parametrize(
    ("version", "offset", "error", "expected"),
    [(3, 1, 76, []), (4, 0, 0, [0, 1, 2]), (4, 1, 0, [1, 2]), (9, 1, 0, [1, 2]), (10, 0, 0, [0, 1, 2])],
)
async def test_only_message_sets_have_no_zstd(
    version: int, offset: int, error: int, expected: list[int], tmp_path: Path
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await fill(client, "t", b"a")
        await fill(client, "t", b"b" * 1000, codec=Codec.ZSTD)
        await fill(client, "t", b"c")
        data = fetched(await client.ask(fetch_request("t", offset), version))
        assert (data.error_code, offsets(data)) == (error, expected)


@pytest.mark.parametrize("version", [4, 9])
async def test_batches_go_out_as_they_are_stored(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await fill(client, "t", b"a" * 900_000, b"b" * 100, codec=Codec.ZSTD)
        await fill(client, "t", b"c" * 900_000)
        # Nothing reads them on the way from the file to the socket.
        monkeypatch.delattr(FileSlice, "read")
        data = fetched(await client.ask(fetch_request("t", max_bytes=1 << 22), version))
        assert (data.error_code, offsets(data)) == (0, [0, 1, 2])


async def test_a_failed_directory_has_an_older_name_for_older_versions(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        node.replica_manager.directory_failed(str(tmp_path))
        for version, error in [(5, 6), (6, 56), (12, 56)]:
            assert fetched(await client.ask(fetch_request("t"), version)).error_code == error
