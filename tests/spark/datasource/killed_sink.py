"""The format `kcli-killed`: a sink whose process of the commits is killed after some tasks are committed.

The option `killAfter` is their number; it may be that of all tasks, before Spark learns of it. Then Spark is
taken for gone, too: nothing is aborted.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from kcli.client.producer.open_transaction import end_transaction
from kcli.spark.datasource import sink_transactions
from kcli.spark.datasource.data_source import KcliDataSource
from kcli.spark.datasource.sink import KcliStreamSink, sink_options

if TYPE_CHECKING:
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType


class KilledDataSource(KcliDataSource):
    @classmethod
    def name(cls) -> str:
        return "kcli-killed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> KcliStreamSink:
        return KilledSink(self.options, schema)


class KilledSink(KcliStreamSink):
    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        super().__init__(sink_options(options), schema)
        self._left = int(options["killAfter"])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        async def end(client: Any, transaction: Any, **settings: Any) -> None:
            if not self._left:
                self._kill()
            self._left -= 1
            await end_transaction(client, transaction, **settings)

        sink_transactions.end_transaction = end
        sink_transactions.ENDS_AT_A_TIME = 1
        super().commit(messages, batchId)
        self._kill()

    def abort(self, messages: list[WriterCommitMessage | None], *_batch: int) -> None:
        self._kill()

    def _kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)
