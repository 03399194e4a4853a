"""`python -m tests.differential`: the same random requests to Apache Kafka and to kcli."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.differential.guarded import GuardedComparison, GuardedPair, Ports
from tests.differential.printing import print_report
from tests.differential.requests import APIS
from tests.differential.run import Comparison
from tests.differential.sides import Pair

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = {"offsets.topic.num.partitions": "1", "offsets.retention.check.interval.ms": "86400000"}
"""No group goes by itself during a run."""


def main() -> int:
    """Run what the command line says; return 1 if anything differs without an explanation."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="another seed, other requests")
    parser.add_argument("--requests", type=int, default=2000, help="how many to send")
    parser.add_argument(
        "--api",
        action="append",
        default=[],
        choices=[api.name for api in APIS],
        metavar="NAME",
        help="only requests of this API; may be repeated",
    )
    parser.add_argument(
        "--guarded",
        action="store_true",
        help="with authorizers, and clients whose access control entries differ; needs its own brokers",
    )
    parser.add_argument("--shrink", type=int, default=20, help="how many differences to shrink")
    parser.add_argument("--apache", metavar="HOST:PORT", help="a running Apache Kafka broker to use")
    parser.add_argument("--kcli", metavar="HOST:PORT", help="a running kcli broker to use")
    options = parser.parse_args()
    theirs, ours = Ports.free(), Ports.free()
    with (
        tempfile.TemporaryDirectory(prefix="differential-") as directory,
        brokers(
            Path(directory),
            options.apache,
            options.kcli,
            guards=(theirs, ours) if options.guarded else None,
        ) as (apache, kcli),
    ):
        names = tuple(options.api)
        comparison = (
            GuardedComparison(GuardedPair(theirs, ours), seed=options.seed, names=names)
            if options.guarded
            else Comparison(Pair(apache, kcli), seed=options.seed, names=names)
        )
        report = comparison.run(options.requests)
        for finding in list(report.findings.values())[: options.shrink]:
            comparison.shrink(finding)
        print_report(report)
        comparison.close()
    return 1 if report.findings else 0


@contextmanager
def brokers(
    directory: Path, apache: str | None, kcli: str | None, *, guards: tuple[Ports, Ports] | None
) -> Iterator[tuple[str, str]]:
    """The addresses of both brokers, started here unless they are given."""
    from tests.support.apache_kafka import ApacheKafka, KafkaTools
    from tests.support.kcli_broker import KcliBroker

    started = []
    if apache is None:
        (directory / "apache").mkdir()
        tools = KafkaTools(directory)
        theirs = ApacheKafka(
            directory / "apache", tools, settings=SETTINGS | (guards[0].apache_settings if guards else {})
        )
        tools.close()
        started.append(theirs)
        theirs.port = guards[0].plain if guards else theirs.port
        theirs.start()
        apache = theirs.bootstrap
    if kcli is None:
        (directory / "kcli").mkdir()
        ours = KcliBroker(directory / "kcli", settings=SETTINGS | (guards[1].settings if guards else {}))
        started.append(ours)
        ours.start()
        kcli = ours.bootstrap
    try:
        yield apache, kcli
    finally:
        for each in started:
            each.stop()


if __name__ == "__main__":
    sys.exit(main())
