"""The `kcli` program, and `python -m kcli`.

An interrupt during the imports ends the program as quietly as a later one.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys

YOUNG_OBJECTS = 200_000
"""How many new objects trigger a garbage collection: more than the imports make, as they leave no garbage."""


def open_standard_files() -> None:
    """Open /dev/null for standard files that a shell closed (`>&-`): a socket would take their numbers."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - as long as the process


def write_any_text() -> None:
    """Escape characters that the encoding of stdout (locale or `PYTHONIOENCODING`) lacks."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.encoding.lower().startswith("utf"):
        sys.stdout.reconfigure(errors="backslashreplace")


def refuse_bytes(arguments: list[str]) -> bool:
    """Print an error if an argument is not UTF-8, and return whether one is."""
    for number, argument in enumerate(arguments, 1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            from kcli.commands.shortcut import refuse

            shown = os.fsencode(argument).decode(errors="backslashreplace")
            refuse(f"argument {number} is not UTF-8: {shown}", arguments)
            return True
    return False


def drop_unread_errors() -> None:
    """Replace a broken stderr by /dev/null: the interpreter's flush at exit would change the exit code."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def main() -> int:
    """Run kcli with the arguments of the process and return its exit code."""
    open_standard_files()
    write_any_text()
    if refuse_bytes(sys.argv[1:]):
        return 2
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    gc.set_threshold(YOUNG_OBJECTS, 20, 100)
    if sys.argv[1:2] in (["dump-log"], ["verify-index"]) or sys.argv[1:3] == ["broker", "start"]:
        from kcli.commands.shortcut import run_shortcut

        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run_shortcut(sys.argv[1:])
        if code is not None:
            # Everything is written and closed: skip the interpreter's teardown, which takes time.
            os._exit(code)
    from kcli.cli import main

    # trio takes over interrupts only from Python's own handler.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = main()
        drop_unread_errors()
    finally:  # a completion ends by `SystemExit`
        gc.freeze()  # the interpreter's last collection would look at all that was imported
    return code


if __name__ == "__main__":
    raise SystemExit(main())
