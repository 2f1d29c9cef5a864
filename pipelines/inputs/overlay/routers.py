"""Overlays in line-oriented text: Rocketfuel maps (``.graph``) and the pssim simulator's topologies."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pipelines.contract.settings import nfc
from pipelines.inputs.overlay.columns import Columns
from pipelines.inputs.overlay.weighted import ContentError, WeightedGraph, merge_parallel, unique_names

Lines = Iterator[tuple[int, str]]


def parse_rocketfuel(content: bytes, columns: Columns) -> WeightedGraph:
    """Reads a Rocketfuel map.

    ``NODES n``, a header, n lines ``label x y``, ``EDGES m``, a header, m lines ``label src dest weight bw delay``.
    Nodes are named by their labels. The two directions of a link count as one, with the smaller delay.

    Args:
        content: The file.
        columns: The unit of delays.

    Raises:
        ContentError: With the line.
    """
    lines = _lines(content)
    n_nodes = _section(lines, "NODES")
    labels = [_fields(lines, "label x y", "NODES", n_nodes, k)[1][0] for k in range(n_nodes)]
    n_edges = _section(lines, "EDGES")
    ends, delays = [], []
    for k in range(n_edges):
        line, fields = _fields(lines, "label src dest weight bw delay", "EDGES", n_edges, k)
        ends.append((_index(line, fields[1], n_nodes), _index(line, fields[2], n_nodes)))
        delays.append(delay(fields[5], f"line {line}"))
    _no_more(lines, f"{n_edges} edges")
    names = unique_names(labels, map(str, range(n_nodes)))
    return merge_parallel(names, ends, columns.in_ms(np.array(delays, dtype=np.float64)), is_directed=True)


def parse_pssim(content: bytes, columns: Columns) -> WeightedGraph:
    """Reads a topology of pssim.

    ``No of nodes:n``, ``No of edges:m``, ``Nodes:``, n lines ``id degree capacity``, ``Edges:``, m lines
    ``id from to delay``. Nodes are named by their ids.

    Args:
        content: The file.
        columns: The unit of delays.

    Raises:
        ContentError: With the line.
    """
    lines = _lines(content)
    n_nodes, n_edges = _headed(lines, "No of nodes:"), _headed(lines, "No of edges:")
    _headed(lines, "Nodes:", has_count=False)
    index: dict[str, int] = {}
    for k in range(n_nodes):
        line, fields = _fields(lines, "id degree capacity", "Nodes:", n_nodes, k)
        if fields[0] in index:
            raise ContentError(f"line {line}: node {fields[0]!r} is listed twice; ids are unique")
        index[fields[0]] = k
    _headed(lines, "Edges:", has_count=False)
    ends, delays = [], []
    for k in range(n_edges):
        line, fields = _fields(lines, "id from to delay", "Edges:", n_edges, k)
        for end in fields[1:3]:
            if end not in index:
                raise ContentError(f"line {line}: no node {end!r}; an edge's ends are ids of the section Nodes:")
        ends.append((index[fields[1]], index[fields[2]]))
        delays.append(delay(fields[3], f"line {line}"))
    _no_more(lines, f"{n_edges} edges")
    return merge_parallel(tuple(index), ends, columns.in_ms(np.array(delays, dtype=np.float64)), is_directed=True)


def decode(content: bytes) -> str:
    """Returns a file's text (UTF-8, with or without a mark) in Unicode's composed form.

    Raises:
        ContentError: It is no text, with the line.
    """
    try:
        text = nfc(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ContentError(f"line {line}: not UTF-8 text (byte 0x{content[error.start]:02x})") from error
    if "\0" in text:
        raise ContentError(f"line {text.count(chr(10), 0, text.index(chr(0))) + 1}: not a text file (a zero byte)")
    return text


def delay(text: object, place: str) -> float:
    """Returns a delay, in ms where the format knows no other unit.

    Args:
        text: The cell.
        place: Where it stands, for the message.

    Raises:
        ContentError: It is no number, negative, or not finite.
    """
    try:
        value = float(str(text))
    except ValueError as error:
        raise ContentError(f"{place}: the delay is {text!r}; a delay is a number, 0 or more") from error
    if not math.isfinite(value) or value < 0:
        raise ContentError(f"{place}: the delay is {text}; a delay is finite, 0 or more")
    return value


def _lines(content: bytes) -> Lines:
    """Yields the lines that are not blank, with their numbers."""
    return ((i, line.strip()) for i, line in enumerate(decode(content).splitlines(), start=1) if line.strip())


def _next(lines: Lines, wanted: str) -> tuple[int, str]:
    try:
        return next(lines)
    except StopIteration:
        raise ContentError(f"the file ends where {wanted} should come: it is cut short") from None


def _count(line: int, text: str, title: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ContentError(f"line {line}: {title!r} is followed by {text!r}; a whole number must follow")
    return int(text)


def _section(lines: Lines, title: str) -> int:
    """Reads ``NODES n`` and the line of column titles; returns n."""
    line, text = _next(lines, f"'{title} n'")
    word, _, rest = text.partition(" ")
    if word != title:
        raise ContentError(
            f"line {line}: {text[:60]!r} stands where {title + ' n'!r} should; is the number before it right?"
        )
    count = _count(line, rest.strip(), title)
    _next(lines, f"the header of {title}")
    return count


def _headed(lines: Lines, title: str, *, has_count: bool = True) -> int:
    """Reads ``No of nodes:n`` or ``Nodes:``; returns n, or 0."""
    line, text = _next(lines, repr(title))
    if not text.startswith(title):
        raise ContentError(f"line {line}: {text[:60]!r} stands where {title!r} should; is the number before it right?")
    return _count(line, text.removeprefix(title).strip(), title) if has_count else 0


def _fields(lines: Lines, layout: str, title: str, total: int, position: int) -> tuple[int, list[str]]:
    """Reads the next line of a section, with as many fields as its layout names."""
    line, text = _next(lines, f"entry {position + 1} of {total} of the section {title}")
    fields = text.split()
    if len(fields) != len(layout.split()):
        raise ContentError(
            f"line {line}: {text[:60]!r} is not entry {position + 1} of {total} of the section {title}; "
            f"an entry is '{layout}'"
        )
    return line, fields


def _index(line: int, text: str, n_nodes: int) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >= n_nodes:
        raise ContentError(f"line {line}: no node {text!r}; nodes are numbered 0 to {n_nodes - 1}")
    return int(text)


def _no_more(lines: Lines, expected: str) -> None:
    for line, text in lines:
        raise ContentError(f"line {line}: {text[:60]!r} comes after the {expected} that the file announces")
