"""Two thousand random requests to Apache Kafka and to kcli; `python -m tests.differential` sends more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.differential.printing import as_test
from tests.differential.requests import APIS
from tests.differential.run import Comparison
from tests.differential.sides import Pair
from tests.interop.conftest import BROKER_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.apache_kafka import ApacheKafka
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

SEEDS = (1, 6)
REQUESTS = 1000


def test_both_answer_alike(apache_kafka: ApacheKafka, new_kcli_broker: Callable[..., KcliBroker]) -> None:
    # As many partitions as Apache Kafka has there: a transaction has the groups of one together.
    kcli = new_kcli_broker({**BROKER_SETTINGS, "offsets.topic.num.partitions": "1"}).start()
    pair = Pair(apache_kafka.bootstrap, kcli.bootstrap)
    asked: set[str] = set()
    try:
        for seed in SEEDS:
            report = Comparison(pair, seed=seed).run(REQUESTS)
            assert not report.findings, "\n".join(map(as_test, report.findings.values()))
            asked |= report.requests.keys()
    finally:
        pair.close()
    assert asked == {api.name for api in APIS}
