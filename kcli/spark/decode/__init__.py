"""Bytes of log files and fetch responses in, Arrow columns out.

    Gatherer   walks entries, checks and decompresses them, and gives their rows     gather
    decode     a chunk of batches becomes a record batch: numba, numpy or Python     decode
    formats    what keys and values mean: text, numbers, JSON, Avro                   formats
    predicates which rows are wanted                                                  predicates

Third-party: pyarrow and numpy; numba, isal, zstandard and fastavro where they are installed.
"""
