"""Apache Kafka and kcli with authorizers answer clients with random access control entries alike.

`python -m tests.differential --guarded` sends more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kcli.protocol.error_codes import ErrorCode
from tests.differential.guarded import ASKERS, GuardedComparison, GuardedPair, Ports
from tests.differential.printing import as_test
from tests.support.apache_kafka import ApacheKafka
from tests.support.processes import wait_for_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

SETTINGS = {"offsets.topic.num.partitions": "1"}
REQUESTS = 500
REFUSALS = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


def test_both_deny_and_hide_alike(
    tmp_path: Path, kafka_tool: KafkaTools, new_kcli_broker: Callable[..., KcliBroker]
) -> None:
    theirs, ours = Ports.free(), Ports.free()
    apache = ApacheKafka(tmp_path, kafka_tool, settings={**SETTINGS, **theirs.apache_settings})
    process = apache.launch()
    try:
        kcli = new_kcli_broker({**SETTINGS, **ours.settings}).start()
        wait_for_port(theirs.sasl, timeout=120, alive=process.is_running)
        comparison = GuardedComparison(GuardedPair(theirs, ours), seed=1)
        report = comparison.run(REQUESTS)
        comparison.close()
        assert kcli.stop() == 0
    finally:
        apache.stop()
    assert not report.findings, "\n".join(map(as_test, report.findings.values()))
    for refusal in REFUSALS:
        assert sum(count for name, count in report.errors.items() if name.endswith(f" {refusal.name}")) > 5
    assert comparison.asked == set(ASKERS)
