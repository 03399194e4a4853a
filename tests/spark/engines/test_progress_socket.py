"""Datagrams of progress: sums that no loss can spoil, from our own tasks only."""

from __future__ import annotations

import pickle
import socket

from kcli.spark.engines.progress_socket import ProgressReceiver, ProgressSender, SplitProgress


def test_each_datagram_says_how_far_a_split_has_come() -> None:
    with ProgressReceiver() as receiver:
        address = pickle.loads(pickle.dumps(receiver.address))
        with ProgressSender(address, 3) as sender:
            sender.add(2, 100)
            sender.add(1, 5_000_000_000)
        assert list(receiver.received()) == [SplitProgress(3, 2, 100), SplitProgress(3, 3, 5_000_000_100)]
        assert list(receiver.received()) == []


def test_datagrams_of_others_do_not_count() -> None:
    with ProgressReceiver() as receiver, ProgressReceiver() as other:
        host, port, token = receiver.address
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for datagram in (b"", b"x" * 28, token, token + b"x" * 21):
                stranger.sendto(datagram, (host, port))
        with ProgressSender(other.address._replace(port=port), 1) as sender:
            sender.add(1, 1)
        assert list(receiver.received()) == []


def test_a_driver_that_is_gone_does_not_stop_a_task() -> None:
    receiver = ProgressReceiver()
    receiver.close()
    with ProgressSender(receiver.address, 0) as sender:
        for _ in range(5):
            sender.add(1, 1)
