"""Datagrams of progress: limited in number, and from our own tasks only."""

from __future__ import annotations

import pickle
import socket

from kcli.spark.progress_socket import ProgressReceiver, ProgressSender, SplitProgress


def test_a_task_tells_its_counts_at_most_five_times_a_second() -> None:
    now = [0.0]
    with ProgressReceiver() as receiver:
        address = pickle.loads(pickle.dumps(receiver.address))
        with ProgressSender(address, 3, clock=lambda: now[0]) as sender:
            for step in range(16):
                now[0] = step / 16
                sender.update(step, step * 1000)
        assert list(receiver.received()) == [SplitProgress(3, rows, rows * 1000) for rows in (4, 8, 12)]
        assert list(receiver.received()) == []


def test_datagrams_of_others_do_not_count() -> None:
    with ProgressReceiver() as receiver, ProgressReceiver() as other:
        host, port, token = receiver.address
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for datagram in (b"", b"x" * 28, token, token + b"x" * 21):
                stranger.sendto(datagram, (host, port))
        clock = iter([0.0, 1.0])
        with ProgressSender(other.address._replace(port=port), 1, clock=lambda: next(clock)) as sender:
            sender.update(1, 1)
        assert list(receiver.received()) == []


def test_a_driver_that_is_gone_does_not_stop_a_task() -> None:
    receiver = ProgressReceiver()
    receiver.close()
    now = [0.0]
    with ProgressSender(receiver.address, 0, clock=lambda: now[0]) as sender:
        for step in range(5):
            now[0] = float(step)
            sender.update(step, step)
