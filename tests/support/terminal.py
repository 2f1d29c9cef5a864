"""Runs a function or a command at a pseudo-terminal of a given width, and returns the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import TextIO

from pipelines.cli.app import app


def at_terminal(width: int, write: Callable[[TextIO], object]) -> str:
    """Returns the screen of a terminal of ``width`` columns after ``write`` has written to it."""
    master, slave = _opened(width)
    with ThreadPoolExecutor(1) as reader:
        shown = reader.submit(_read, master)
        with os.fdopen(slave, "w", encoding="utf-8") as out:
            write(out)
        return shown.result()


def command_at_terminal(width: int, *arguments: str) -> tuple[str, int]:
    """Returns the screen of a terminal of ``width`` columns at the end of a command, and the exit code.

    The command runs in this process.
    """
    codes: list[int] = []

    def write(out: TextIO) -> None:
        with redirect_stdout(out), redirect_stderr(out):
            try:
                app(arguments, prog_name="roundtable")
            except SystemExit as end:
                codes.append(int(end.code or 0))

    shown = at_terminal(width, write)
    return "\n".join(line.rpartition("\r")[2] for line in shown.split("\n")), codes[0]


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
