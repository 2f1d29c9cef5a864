"""The command line ``roundtable``, also ``python -m pipelines``.

A function that cannot use an argument, a file or a store raises `typer.BadParameter` or an error of `pipelines.errors`;
`pipelines.cli.ends` prints it.
"""

from __future__ import annotations

import gc
import os
import signal
from typing import Final

from pipelines.cli.signals import interruptions

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


def _leave(number: int, frame: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(128 + number)
