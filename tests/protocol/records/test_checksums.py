"""CRC-32C by its published check value, and the promise that loading it stays cheap."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.records.batch_header import crc32c


def test_the_check_value_of_the_algorithm() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


@given(st.binary(), st.binary())
def test_a_checksum_can_be_continued_and_taken_of_any_buffer(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(first + second)
    assert crc32c(memoryview(bytearray(first))) == crc32c(first)


def test_loading_it_does_not_ask_for_installed_versions() -> None:
    program = (
        "import sys, kcli.protocol.records.batch\n"
        "assert 'importlib.metadata' not in sys.modules\n"
        "import crc32c\n"
        "assert crc32c.crc32c(b'123456789') == 0xE3069283\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
