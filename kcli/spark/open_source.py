"""Opening the source that options of the data source name."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.spark.ranges.options import SourceOptions
    from kcli.spark.source import Source

_logger = logging.getLogger("kcli.spark")


@contextmanager
def opened(options: SourceOptions) -> Iterator[Source]:
    """Give the source for the time of the block."""
    source = open_source(options)
    try:
        yield source
    finally:
        source.close()


def open_source(options: SourceOptions) -> Source:
    """Return the brokers or log directories that the options name; the imports wait until they are needed."""
    if options.bootstrap is not None:
        from kcli.spark.cluster.brokers_source import BrokersSource

        fails = options.rules.fail_on_data_loss
        return BrokersSource(options.bootstrap, options.properties, fail_on_data_loss=fails)
    from kcli.spark.logs.log_dirs_source import LogDirsSource

    return LogDirsSource(options.log_dirs, _logger.warning)
