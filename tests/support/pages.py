"""The fenced blocks of a page, and the commands in them with the outputs that the page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator


def blocks(page: str, language: str = "") -> list[str]:
    """Returns the fenced blocks of a language in the text of a page, in order."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [block for name, block in fenced if name == language]


def commands(page: str) -> Iterator[tuple[str, str]]:
    """Yields the arguments of each command ``$ roundtable ...`` of a page, and the output below the command."""
    for block in blocks(page):
        yield from re.findall(r"^\$ roundtable (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
