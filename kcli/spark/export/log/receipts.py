"""Receipts: the receipts in a target, which tasks write and the finishing of a plan reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.spark.export.log.export_log import DamagedLog, decoded, encoded
from kcli.spark.export.log.receipt import Receipt
from kcli.spark.export.target.layout import receipt_index, receipt_path, receipts_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.spark.export.log.plan import Plan
    from kcli.spark.export.target.target import Target


class Receipts:
    """The receipts of all plans of a target, and the files that they name."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def write(self, receipt: Receipt) -> bool:
        """Create a receipt; return False if another attempt at its task was first."""
        return self._target.create_exclusively(self._path(receipt), encoded(receipt.to_json()))

    def read(self, plan: int, index: int) -> Receipt | None:
        """Return the receipt of a task, None without one; where creation is not exclusive use `of`."""
        path = receipt_path(plan, index, None)
        data = self._target.read(path)
        return None if data is None else decoded(data, path, Receipt.from_json)

    def publish(self, receipt: Receipt) -> bool:
        """Rename the files of a receipt to their final names; return whether all are there, whole."""
        complete = True
        for file in (*receipt.files, *receipt.dead_letters):
            if file.temporary is None or not self._target.rename(file.temporary, file.path):
                complete &= self._target.size(file.path) == file.size_bytes
        return complete

    def withdraw(self, receipt: Receipt) -> None:
        """Remove a receipt, then the files that its own attempt wrote: its task is not done."""
        self._target.remove(self._path(receipt))
        for file in (*receipt.files, *receipt.dead_letters):
            self._target.remove(file.temporary or file.path)

    def of(self, plan: Plan) -> list[Receipt]:
        return [receipt for _, receipt in self._found(plan) if receipt is not None]

    def tidied(self, plan: Plan) -> list[Receipt]:
        """Return the receipts of a plan; remove temporary files and receipts of other plans beside them."""
        found = list(self._found(plan))
        for path, receipt in found:
            if receipt is None:
                self._target.remove(path)
        return [receipt for _, receipt in found if receipt is not None]

    def _path(self, receipt: Receipt) -> str:
        attempt = None if self._target.renames else receipt.attempt
        return receipt_path(receipt.plan, receipt.index, attempt)

    def _found(self, plan: Plan) -> Iterator[tuple[str, Receipt | None]]:
        for entry in self._target.list(receipts_path(plan.number)):
            data = self._target.read(entry.path)
            receipt = None if data is None else _parsed(data, entry.path)
            is_ours = (
                receipt is not None and receipt.plan_id == plan.plan_id and receipt.index < len(plan.tasks)
            )
            yield entry.path, receipt if is_ours else None


def _parsed(data: bytes, path: str) -> Receipt | None:
    """Return a receipt, None for a temporary file or a truncated one."""
    if receipt_index(path.rpartition("/")[2]) is None:
        return None
    try:
        return decoded(data, path, Receipt.from_json)
    except DamagedLog:
        return None
