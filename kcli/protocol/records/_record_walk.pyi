"""The optional extension module; `record_walk` chooses and describes it."""

from kcli.protocol.corruption import Buffer

def walk_records(
    data: Buffer, position: int, count: int, base_timestamp: int, /
) -> tuple[int, int, bool, bool]: ...
