"""Receipts in a target: written by tasks, found again by whoever finishes the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.spark.export.log.export_log import DamagedLog, decoded, encoded
from kcli.spark.export.log.receipt import Receipt
from kcli.spark.export.target.layout import receipt_index, receipt_path, receipts_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.spark.export.log.plan import Plan
    from kcli.spark.export.target.target import Target


def path_of(target: Target, receipt: Receipt) -> str:
    """Return the file of a receipt."""
    return receipt_path(receipt.plan, receipt.index, None if target.renames else receipt.attempt)


def write_receipt(target: Target, receipt: Receipt) -> bool:
    """Create a receipt; return False if another attempt at its split was first."""
    return target.create_exclusively(path_of(target, receipt), encoded(receipt.to_json()))


def read_receipt(target: Target, plan: int, index: int) -> Receipt | None:
    """Return the one receipt of a split where creation is exclusive, None if there is none yet."""
    path = receipt_path(plan, index, None)
    data = target.read(path)
    return None if data is None else decoded(data, path, Receipt.from_json)


def publish(target: Target, receipt: Receipt) -> bool:
    """Give files their final names, if they have not got them; return whether all are there, whole."""
    complete = True
    for file in (*receipt.files, *receipt.dead_letters):
        if file.temporary is None or not target.rename(file.temporary, file.path):
            complete &= target.size(file.path) == file.size_bytes
    return complete


def withdraw(target: Target, receipt: Receipt) -> None:
    """Remove a receipt and then what it names under names of its own attempt: its split is not written."""
    target.remove(path_of(target, receipt))
    for file in (*receipt.files, *receipt.dead_letters):
        target.remove(file.temporary or file.path)


def receipts_in(target: Target, plan: Plan) -> list[Receipt]:
    """Return the receipts of a plan, by split and attempt."""
    return [receipt for _, receipt in _found(target, plan) if receipt is not None]


def tidied_receipts(target: Target, plan: Plan) -> list[Receipt]:
    """Return the receipts of a plan; remove temporary files and other plans' receipts beside them."""
    receipts = []
    for path, receipt in _found(target, plan):
        if receipt is None:
            target.remove(path)
        else:
            receipts.append(receipt)
    return receipts


def _found(target: Target, plan: Plan) -> Iterator[tuple[str, Receipt | None]]:
    for entry in target.list(receipts_path(plan.number)):
        data = target.read(entry.path)
        receipt = None if data is None else _parsed(data, entry.path)
        is_ours = receipt is not None and receipt.plan_id == plan.plan_id and receipt.index < len(plan.splits)
        yield entry.path, receipt if is_ours else None


def _parsed(data: bytes, path: str) -> Receipt | None:
    """Return a receipt, None for a temporary file or one that was cut off."""
    if receipt_index(path.rpartition("/")[2]) is None:
        return None
    try:
        return decoded(data, path, Receipt.from_json)
    except DamagedLog:
        return None
