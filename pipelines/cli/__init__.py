"""The command line ``roundtable``, also ``python -m pipelines``.

A function that cannot use an argument, a file or a store raises `typer.BadParameter` or an error of `pipelines.errors`;
`pipelines.cli.ends` prints it.
"""

from __future__ import annotations

import gc
import os
import signal
from typing import Final

GC_THRESHOLDS: Final = 200_000, 20, 50
"""The GC thresholds of a command. Imports create no reference cycles, so early collections would find nothing.

With Python's default thresholds, garbage collection takes a sixth of the import time.
"""


def main() -> None:
    """Runs the command in ``sys.argv`` and exits with its exit code."""
    # Until `pipelines.cli.ends` starts a command, no work can be lost, so a signal may end the program immediately.
    for number in interruptions():
        signal.signal(number, _leave)
    gc.set_threshold(*GC_THRESHOLDS)
    from pipelines.cli.app import app

    app(prog_name="roundtable")


def interruptions() -> list[signal.Signals]:
    """Returns the signals that interrupt a command: Ctrl-C, SIGTERM, and SIGHUP of a terminal that is closed.

    A signal that the parent process ignores is omitted, as SIGHUP under ``nohup``. Ctrl-C is never omitted, because
    shells ignore it for the background jobs of a script.
    """
    ended = [one for name in ("SIGTERM", "SIGHUP") if (one := getattr(signal, name, None)) is not None]
    return [signal.SIGINT, *(one for one in ended if signal.getsignal(one) is not signal.SIG_IGN)]


def _leave(number: int, frame: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(128 + number)
