"""CRC-32C (Castagnoli), the checksum of a record batch and of a producer snapshot.

The `crc32c` package asks the installed distribution for its version when imported, which costs ten times
what its extension module does, so the extension is loaded by itself; a layout it cannot be found in falls
back to the plain import. The checksum of the older formats is `zlib.crc32`.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kcli.protocol.record import Buffer


class Checksum(Protocol):
    """The CRC of `data`, continuing from `value`, the CRC of the bytes before it."""

    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


def _load_crc32c() -> Checksum:
    name = "crc32c._crc32c"
    loaded = sys.modules.get(name)
    if loaded is None:
        package = PathFinder.find_spec("crc32c")
        locations = package.submodule_search_locations if package is not None else None
        extension = PathFinder.find_spec(name, locations) if locations is not None else None
        if extension is None or extension.loader is None:
            from crc32c import crc32c as imported

            return imported
        loaded = module_from_spec(extension)
        extension.loader.exec_module(loaded)
        # A later `import crc32c` finds the module instead of loading it a second time.
        sys.modules[name] = loaded
    checksum: Checksum = loaded.crc32c
    return checksum


crc32c: Checksum = _load_crc32c()
