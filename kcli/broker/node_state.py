"""NodeState: what a node of this process is doing."""

from __future__ import annotations

from enum import Enum


class NodeState(Enum):
    """The life of a node; its value is what people are shown.

    | state | what it does | next |
    |---|---|---|
    | STARTING | loads its logs; fenced, its listeners accept nothing | RUNNING, DEAD |
    | RUNNING | serves | PAUSED, STOPPING, DEAD |
    | PAUSED | nothing, as after SIGSTOP: its sockets are open, nobody is answered | RUNNING, DEAD |
    | STOPPING | hands over what it leads, then closes | DEAD |
    | DEAD | is not there; another may start in its place | STARTING |
    """

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    DEAD = "dead"
