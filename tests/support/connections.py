"""Who is connected to a broker, from Linux's tables: to know when nothing of a dead client is under way."""

from __future__ import annotations

import os
from pathlib import Path

TABLE = Path("/proc/net/tcp")


def connections_of(client: int, broker: int) -> set[int]:
    """Return the broker's sockets whose other ends are the client's; both are process ids."""
    ours, theirs = sockets(client), sockets(broker)
    rows = [line.split() for line in TABLE.read_text().splitlines()[1:]]
    ends = {row[1] for row in rows if int(row[9]) in ours}
    return {int(row[9]) for row in rows if int(row[9]) in theirs and row[2] in ends}


def sockets(pid: int) -> set[int]:
    """Return the inodes of a process's sockets."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            kind, _, inode = os.readlink(descriptor).rstrip("]").partition(":[")
        except FileNotFoundError:
            continue  # closed meanwhile
        if kind == "socket":
            found.add(int(inode))
    return found
