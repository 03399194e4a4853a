"""`kcli transactions`: its whole output in each format, errors and exit codes."""

from __future__ import annotations

from tests.commands.conftest import Transcript
from tests.commands.fake_transactions import FakeTransactions


def test_list(transactions: FakeTransactions, transcript: Transcript) -> None:
    transcript(
        "transactions_list",
        "transactions list",
        "transactions list -o table",
        "transactions list -o json",
        "transactions list --state ongoing,prepare-commit",
        "transactions list --state Dead",
        "transactions list --duration-filter 900000 --transactional-id-pattern pay.*",
        "transactions list --producer-id 1000 --producer-id 1002",
        "transactions list --state asleep",
        "transactions list --transactional-id-pattern ((",
        "transactions list --transactional-id-pattern [",
        "transactions list --producer-id x",
    )


def test_list_without_a_broker(transactions: FakeTransactions, transcript: Transcript) -> None:
    transactions.silent = {2}
    transcript("transactions_list_partial", "transactions list", "transactions list -o json")


def test_describe(transactions: FakeTransactions, transcript: Transcript) -> None:
    transcript(
        "transactions_describe",
        "transactions describe payments-1",
        "transactions describe payments-1 payments-2 -o table",
        "transactions describe payments-2 ledger -o json",
        "transactions describe --transactional-id ledger",
        "transactions describe done",
        "transactions describe done -o table",
        "transactions describe nobody ledger",
        "transactions describe nobody",
        "transactions describe",
        "transactions describe ''",
    )


def test_describe_producers(transactions: FakeTransactions, transcript: Transcript) -> None:
    transcript(
        "transactions_describe_producers",
        "transactions describe-producers orders:0",
        "transactions describe-producers orders:1 -o table",
        "transactions describe-producers --topic orders --partition 1 -o json",
        "transactions describe-producers orders:0 --broker-id 2",
        "transactions describe-producers clicks:0",
        "transactions describe-producers clicks:0 -o table",
        "transactions describe-producers clicks:0 --broker-id 1",
        "transactions describe-producers clicks:0 --broker-id 9",
        "transactions describe-producers orders:7",
        "transactions describe-producers nothing:7",
        "transactions describe-producers orders",
        "transactions describe-producers --topic orders",
        "transactions describe-producers orders:0 --partition 0",
        "transactions describe-producers",
    )


def test_find_hanging(transactions: FakeTransactions, transcript: Transcript) -> None:
    """Those of producers 500 and 1001: no coordinator waits for the end of theirs."""
    transcript(
        "transactions_find_hanging",
        "transactions find-hanging --topic orders",
        "transactions find-hanging --broker-id 2 -o table",
        "transactions find-hanging --topic orders --partition 1 -o json",
        "transactions find-hanging --topic orders --max-transaction-timeout 60",
        "transactions find-hanging --topic orders --max-transaction-timeout 1",
        "transactions find-hanging --topic clicks",
        "transactions find-hanging --topic nothing",
        "transactions find-hanging --topic orders --partition 9",
        "transactions find-hanging --broker-id 9",
        "transactions find-hanging",
        "transactions find-hanging --broker-id 1 --partition 0",
    )


def test_a_broker_that_is_silent_may_know_every_transaction(
    transactions: FakeTransactions, transcript: Transcript
) -> None:
    transactions.silent = {2}
    transcript("transactions_find_hanging_partial", "transactions find-hanging --topic orders")


def test_abort(transactions: FakeTransactions, transcript: Transcript) -> None:
    transcript(
        "transactions_abort",
        "transactions abort orders:0 --start-offset 20",
        "transactions abort orders:1 --start-offset 7 -o table",
        "transactions abort orders:1 --start-offset 7 -o json",
        "transactions abort orders:0 --producer-id 500 --producer-epoch 1 --coordinator-epoch -1",
        "transactions abort orders:0 --start-offset 21",
        "transactions abort orders:7 --start-offset 21",
        "transactions abort orders:7 --producer-id 500 --producer-epoch 1 --coordinator-epoch -1",
        "transactions abort orders:0 --producer-id 1000 --producer-epoch 3 --coordinator-epoch 9",
        "transactions abort orders:0 --producer-id 500 --producer-epoch 1",
        "transactions abort orders:0 --start-offset 20 --producer-id 500",
        "transactions abort orders:0",
        "transactions abort orders:0 --producer-epoch 40000",
    )
    assert [(str(partition), *owner) for partition, *owner in transactions.aborted] == [
        ("orders-0", 500, 1, 0),
        ("orders-1", 1001, 0, 12),
        ("orders-1", 1001, 0, 12),
        ("orders-0", 500, 1, 0),
    ]


def test_force_terminate_waits_for_the_end_of_a_transaction_that_is_decided(
    transactions: FakeTransactions, transcript: Transcript
) -> None:
    transactions.writes_markers = True
    transcript("transactions_force_terminate_decided", "transactions force-terminate ledger")


def test_force_terminate(transactions: FakeTransactions, transcript: Transcript) -> None:
    transcript(
        "transactions_force_terminate",
        "transactions force-terminate payments-1",
        "transactions force-terminate --transactional-id payments-1 -o table",
        "transactions force-terminate payments-1 -o json",
        "transactions force-terminate payments-2",
        "transactions force-terminate done",
        "transactions force-terminate ledger",
        "transactions force-terminate nobody",
        "transactions force-terminate",
        "transactions force-terminate ''",
        "transactions force-terminate a --transactional-id b",
    )
