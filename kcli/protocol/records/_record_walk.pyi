"""The optional extension module; `record_walk` and `record_filter` choose and describe it."""

from collections.abc import Callable

from kcli.protocol.corruption import Buffer

def walk_records(
    data: Buffer, position: int, count: int, base_timestamp: int, /
) -> tuple[int, int, bool, bool]: ...
def index_keys(
    data: bytes,
    position: int,
    count: int,
    base_offset: int,
    offsets: dict[bytes, int],
    limits: tuple[int, int, int],
    key_form: tuple[int, Callable[[bytes], bytes]],
    /,
) -> int: ...
def select_records(
    data: bytes,
    position: int,
    count: int,
    base_offset: int,
    offsets: dict[bytes, int],
    limits: tuple[int, bool],
    key_form: tuple[int, Callable[[bytes], bytes]],
    /,
) -> tuple[list[int], int, int, int, int, bool, int, int]: ...
def rebase_records(data: bytes, runs: list[int], shift: int, same: int | None, /) -> bytes: ...
