"""`python -IS peak.py REPORT COMMAND …`: run a command, and write to a file how much memory it had at most.

The kernel counts what a process had before it became the command, which is what its parent had. So a small
process must be the parent.
"""

from __future__ import annotations

import os
import sys

SCRIPT = __file__


def main(report: str, command: list[str]) -> int:
    """Run the command; its exit code."""
    process = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(process, 0)
    with open(report, "w") as file:
        file.write(f"{usage.ru_maxrss * 1024}\n")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
