"""What a summary says of a log: as facts in words, as the cells of a row, and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from kcli.commands.dump.columns import moment
from kcli.commands.words import counted

if TYPE_CHECKING:
    from kcli.commands.dump.summary import LogSummary

MOST_SHOWN = 20


def facts(log: LogSummary) -> Iterator[tuple[str, str]]:
    """Yield all that is known of a log in words, but of producers and transactions only the first ones."""
    yield "files", f"{log.files:,}"
    yield "bytes", f"{log.size_bytes:,}"
    yield "batches", f"{log.batches:,}, the largest of {counted(log.largest_batch_bytes, 'byte')}"
    yield "records", f"{log.records:,}, {log.records_with_headers:,} with headers"
    yield from offset_facts(log)
    yield from storage_facts(log)
    yield from time_facts(log)
    about = "" if log.keys.is_exact else "about "
    keys = f"{about}{log.keys.count:,} different, {about}{log.duplicate_keys:,} superseded"
    yield "keys", f"in {counted(log.keyed_records, 'record')}, {keys}"
    yield "tombstones", f"{log.tombstones:,}"
    yield from producer_facts(log)
    yield from transaction_facts(log)
    controls = ", ".join(f"{count:,} {name}" for name, count in sorted(log.control_records.items()))
    yield "control records", controls or "0"
    for name, count in sorted(log.other_entries.items()):
        yield f"in other files, {name.replace('_', ' ')}", f"{count:,}"
    wrong = f"{counted(log.invalid_batches, 'batch')} with a wrong checksum"
    yield (
        "damage",
        f"{counted(log.damages, 'place')}, {wrong}, {counted(log.invalid_bytes, 'byte')} in no batch",
    )


def offset_facts(log: LogSummary) -> Iterator[tuple[str, str]]:
    """Yield what is known of offsets and leader epochs."""
    if log.first_offset is not None:
        yield "offsets", f"{log.first_offset} to {log.last_offset}"
    yield "offset gaps", f"{log.offset_gaps:,}, {counted(log.missing_offsets, 'offset')} missing"
    if log.first_leader_epoch is not None:
        yield "leader epochs", f"{log.first_leader_epoch} to {log.last_leader_epoch}"


def storage_facts(log: LogSummary) -> Iterator[tuple[str, str]]:
    """Yield what is known of formats and codecs."""
    for magic, count in sorted(log.formats.items()):
        yield f"format {magic}", counted(count, "batch")
    for name, codec in sorted(log.codecs.items()):
        sizes = f"{counted(codec.plain_bytes, 'byte')} in {codec.stored_bytes:,}"
        yield f"codec {name}", f"{counted(codec.batches, 'batch')}, {sizes}, ratio {codec.ratio:.2f}"


def time_facts(log: LogSummary) -> Iterator[tuple[str, str]]:
    """Yield what is known of timestamps."""
    if log.oldest_timestamp is not None and log.newest_timestamp is not None:
        yield "time span", f"{moment(log.oldest_timestamp)} to {moment(log.newest_timestamp)} UTC"
    disorder = f", by up to {log.largest_step_back_ms} ms" if log.out_of_order else ""
    yield "out of time order", f"{counted(log.out_of_order, 'record')}{disorder}"


def producer_facts(log: LogSummary) -> Iterator[tuple[str, str]]:
    """Yield what is known of idempotent producers."""
    yield "producers", f"{len(log.producers):,}{' or more' if log.producers_left_out else ''}"
    for producer_id, producer in sorted(log.producers.items())[:MOST_SHOWN]:
        written = f"{counted(producer.batches, 'batch')}, {counted(producer.records, 'record')}"
        offsets = f"offsets {producer.first_offset} to {producer.last_offset}"
        yield f"producer {producer_id}", f"epoch {producer.epoch}, {written}, {offsets}"
    if len(log.producers) > MOST_SHOWN:
        yield "producers not listed", f"{len(log.producers) - MOST_SHOWN:,}"


def transaction_facts(log: LogSummary) -> Iterator[tuple[str, str]]:
    """Yield what is known of transactions."""
    ended = f"{log.committed_transactions:,} committed, {log.aborted_transactions:,} aborted"
    yield "transactions", f"{ended}, {len(log.open_transactions):,} open"
    for transaction in list(log.open_transactions.values())[:MOST_SHOWN]:
        who = f"producer {transaction.producer_id}, epoch {transaction.producer_epoch}"
        yield "open transaction", f"{who}, from offset {transaction.first_offset} on"


def cells(log: LogSummary) -> tuple[object, ...]:
    """Return what is most important of a log."""
    stored = sum(codec.stored_bytes for codec in log.codecs.values())
    whole = sum(codec.plain_bytes for codec in log.codecs.values())
    return (
        log.path,
        log.files,
        log.size_bytes,
        log.batches,
        log.records,
        "-" if log.first_offset is None else f"{log.first_offset}…{log.last_offset}",
        "-" if log.newest_timestamp is None else moment(log.newest_timestamp),
        ",".join(sorted(log.codecs)) or "-",
        f"{whole / stored:.2f}" if stored else "-",
        len(log.open_transactions),
        log.damages,
    )


def document(log: LogSummary) -> dict[str, object]:
    """Return all that is known of a log."""
    shown: dict[str, object] = {
        each.name: getattr(log, each.name)
        for each in fields(log)
        if each.name not in ("keys", "codecs", "producers", "open_transactions", "formats")
    }
    return {
        **shown,
        "formats": {str(magic): count for magic, count in sorted(log.formats.items())},
        "codecs": {
            name: {**asdict(codec), "ratio": round(codec.ratio, 4)}
            for name, codec in sorted(log.codecs.items())
        },
        "distinct_keys": log.keys.count,
        "distinct_keys_exact": log.keys.is_exact,
        "superseded_records": log.duplicate_keys,
        "producers": [
            {"producer_id": producer_id, **asdict(producer)}
            for producer_id, producer in sorted(log.producers.items())
        ],
        "open_transactions": [asdict(transaction) for transaction in log.open_transactions.values()],
    }
