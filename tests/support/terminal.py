"""Runs a function or a command at a pseudo-terminal of a given width, and returns the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO


def at_terminal(width: int, write: Callable[[TextIO], object]) -> str:
    """Returns the screen of a terminal of ``width`` columns after ``write`` has written to it."""
    master, slave = _opened(width)
    with os.fdopen(slave, "w", encoding="utf-8") as out:
        write(out)
    return _read(master)


def command_at_terminal(width: int, command: Sequence[str], folder: Path) -> tuple[str, int]:
    """Returns the screen of a terminal of ``width`` columns at the end of a command, and the exit code."""
    master, slave = _opened(width)
    with subprocess.Popen(command, cwd=folder, stdin=slave, stdout=slave, stderr=slave) as running:
        os.close(slave)
        shown = _read(master)
    return "\n".join(line.rpartition("\r")[2] for line in shown.split("\n")), running.returncode


def _opened(width: int) -> tuple[int, int]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    return master, slave


def _read(master: int) -> str:
    shown = b""
    with os.fdopen(master, "rb", buffering=0) as screen, suppress(OSError):  # reading past the end raises OSError
        while part := screen.read(4096):
            shown += part
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode()).replace("\r\n", "\n")
