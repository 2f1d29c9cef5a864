"""Lines of prose as a terminal shows them."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TextIO

_USUAL = 80
"""Columns of a terminal that does not say how many it has."""
_UNBROKEN = "\x1f"
"""What stands for a space at which a line is not broken."""


def print_lines(*lines: str, indent: int = 0, out: TextIO | None = None) -> None:
    """Prints lines of prose; on a terminal a long one is broken between words.

    Args:
        lines: The lines.
        indent: Spaces before what goes on in the next line, beside those at the begin of the line.
        out: Where to; None for stdout.
    """
    stream = out if out is not None else sys.stdout
    width = columns(stream)
    for line in lines:
        margin = " " * (len(line) - len(line.lstrip()) + indent)
        broken = [line]
        if width is not None:
            broken = textwrap.wrap(
                line, width, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False
            )
        stream.write("\n".join(broken or [""]).replace(_UNBROKEN, " ") + "\n")


def unbroken(command: str) -> str:
    """Returns a command as `print_lines` prints it in one piece, so that it can be copied."""
    return command.replace(" ", _UNBROKEN)


def columns(stream: TextIO) -> int | None:
    """Returns how many columns a terminal has; None where there is none."""
    return os.get_terminal_size(stream.fileno()).columns or _USUAL if stream.isatty() else None
