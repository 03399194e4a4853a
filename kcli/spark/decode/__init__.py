"""Decoding: bytes of log files and fetch responses become Arrow record batches. Reads no file and no socket.

    gatherer   walks entries, checks and decompresses them, and yields the rows of a range of offsets
    decoders   turns a chunk of batches into a record batch with numba, numpy or plain Python
    formats    decodes keys and values: text, numbers, JSON, Avro

It needs pyarrow and numpy, and uses numba, isal, zstandard and fastavro where they are installed.
"""
