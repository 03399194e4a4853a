"""The clients written in Python, and kcat, at the listeners of a guarded broker.

    secured_login CLIENT CELLS

CELLS is a JSON list of objects with `name`, `bootstrap`, `topic`, `protocol`, `mechanism`, `user`,
`password`, `ca` and `key` (PEM files). For each the client produces a record and reads it in a group of its
own; what comes of it is one line on standard output: the name, `yes` or the name of the client's error, and
the seconds that it took, with tabs between.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

SECONDS = 20.0
VALUE = b"value"

Cell = dict[str, Any]


class Failed(Exception):
    """What the client says of a login that failed."""


def librdkafka(cell: Cell) -> dict[str, str]:
    """Return the properties of clients on librdkafka."""
    config = {"bootstrap.servers": cell["bootstrap"], "security.protocol": cell["protocol"].lower()}
    if "SSL" in cell["protocol"]:
        config["ssl.ca.location"] = cell["ca"]
    if cell["key"]:
        config |= {"ssl.certificate.location": cell["key"], "ssl.key.location": cell["key"]}
    if cell["mechanism"]:
        config |= {
            "sasl.mechanism": cell["mechanism"],
            "sasl.username": cell["user"],
            "sasl.password": cell["password"],
        }
    return config


def confluent(cell: Cell) -> None:
    import confluent_kafka

    errors: list[str] = []
    config: dict[str, Any] = {
        **librdkafka(cell),
        "log_level": 0,
        "error_cb": lambda error: errors.append(error.name()),
    }
    producer = confluent_kafka.Producer(config)
    producer.produce(cell["topic"], VALUE)
    ends = time.monotonic() + SECONDS
    while len(producer) and not errors and time.monotonic() < ends:
        producer.poll(0.1)
    if errors or len(producer):
        producer.purge()
        raise Failed(errors[0] if errors else "nothing was delivered")
    group = {"group.id": f"{cell['topic']}-{cell['name']}", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(config | group)
    consumer.subscribe([cell["topic"]])
    try:
        while time.monotonic() < ends:
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                return
    finally:
        consumer.close()
    raise Failed("nothing was read")


def kafka_python(cell: Cell) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    config: dict[str, Any] = {"bootstrap_servers": cell["bootstrap"], "security_protocol": cell["protocol"]}
    if "SSL" in cell["protocol"]:
        config["ssl_cafile"] = cell["ca"]
    if cell["key"]:
        config |= {"ssl_certfile": cell["key"], "ssl_keyfile": cell["key"]}
    if cell["mechanism"]:
        config |= {
            "sasl_mechanism": cell["mechanism"],
            "sasl_plain_username": cell["user"],
            "sasl_plain_password": cell["password"],
        }
    producer = KafkaProducer(bootstrap_timeout_ms=4000, max_block_ms=4000, **config)
    try:
        producer.send(cell["topic"], VALUE).get(timeout=SECONDS)
    finally:
        producer.close(timeout=1)
    consumer = KafkaConsumer(
        cell["topic"],
        group_id=f"{cell['topic']}-{cell['name']}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(SECONDS * 1000),
        **config,
    )
    try:
        next(iter(consumer))
    finally:
        consumer.close()


async def _aiokafka(cell: Cell) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    config: dict[str, Any] = {"bootstrap_servers": cell["bootstrap"], "security_protocol": cell["protocol"]}
    if "SSL" in cell["protocol"]:
        context = ssl.create_default_context(cafile=cell["ca"])
        if cell["key"]:
            context.load_cert_chain(cell["key"])
        config["ssl_context"] = context
    if cell["mechanism"]:
        config |= {
            "sasl_mechanism": cell["mechanism"],
            "sasl_plain_username": cell["user"],
            "sasl_plain_password": cell["password"],
        }
    async with AIOKafkaProducer(**config) as producer:
        await producer.send_and_wait(cell["topic"], VALUE)
    group = f"{cell['topic']}-{cell['name']}"
    async with AIOKafkaConsumer(
        cell["topic"], group_id=group, auto_offset_reset="earliest", **config
    ) as consumer:
        await asyncio.wait_for(consumer.getone(), SECONDS)


def aiokafka(cell: Cell) -> None:
    asyncio.run(asyncio.wait_for(_aiokafka(cell), SECONDS))


def kcat(cell: Cell) -> None:
    options = [word for pair in librdkafka(cell).items() for word in ("-X", "=".join(pair))]
    ended = subprocess.run(
        ["kcat", "-P", "-t", cell["topic"], *options, "-X", "message.timeout.ms=4000"],
        input=VALUE,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    if ended.returncode:
        told = ended.stderr.decode()
        raise Failed("Authentication failure" if "uthentication" in told else told[-300:])
    group = f"{cell['topic']}-{cell['name']}"
    command = [
        "kcat",
        *options,
        "-X",
        "auto.offset.reset=earliest",
        "-q",
        "-c",
        "1",
        "-G",
        group,
        cell["topic"],
    ]
    subprocess.run(command, capture_output=True, timeout=SECONDS, check=True)


CLIENTS: dict[str, Callable[[Cell], None]] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "kcat": kcat,
}


def main(client: str, cells: list[Cell]) -> None:
    for cell in cells:
        began = time.monotonic()
        try:
            CLIENTS[client](cell)
            said = "yes"
        except Failed as failed:
            said = str(failed)
        except Exception as error:  # The client's own, whose name is what is asked for.
            said = type(error).__name__
        print(f"{cell['name']}\t{said}\t{time.monotonic() - began:.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
