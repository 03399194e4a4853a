"""Compiling: where nothing can be kept on disk, and where numba cannot do it at all."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from numba import njit

from kcli.spark.decode import decoders as decode
from kcli.spark.decode import numba_decoder as compiled
from kcli.spark.decode.numpy_decoder import decode_with_numpy


def add(left: int, right: int) -> int:
    return left + right


def test_without_a_directory_to_keep_it_in_a_function_is_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_a_place(signature: Any, *, cache: bool, **options: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function 'add': no locator available for file 'add.py'")
        return njit(signature, **options)

    monkeypatch.setattr(compiled, "njit", without_a_place)
    made = compiled.compiled(compiled.INT64, compiled.INT64, compiled.INT64)(add)
    assert made(2, 3) == 5


def test_what_numba_cannot_compile_is_an_import_that_fails() -> None:
    with pytest.raises(ImportError, match="add"):
        compiled.compiled(compiled.INT64, compiled.INT64, compiled.BYTES)(add)


def test_without_numba_the_decoder_is_that_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kcli.spark.decode.numba_decoder", None)
    decode.decoder_named.cache_clear()
    try:
        assert decode.decoder_named("") is decode_with_numpy
        with pytest.raises(decode.UsageError, match="no compiled decoder"):
            decode.decoder_named("numba")
    finally:
        decode.decoder_named.cache_clear()


def test_bytes_are_copied_between_arrays() -> None:
    def copy(out: np.ndarray, source: np.ndarray) -> None:
        compiled.copy_bytes(out, 1, source, 2, 3)

    out = np.zeros(5, np.uint8)
    njit(copy)(out, np.arange(10, dtype=np.uint8))
    assert out.tolist() == [0, 2, 3, 4, 0]
