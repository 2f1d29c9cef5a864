"""What makes a list of links an overlay: no self-loop, no link twice, all of it connected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import networkx as nx

from pipelines.errors import Problem

_SHOWN_PARTS = 5


def link_problems(links: Sequence[tuple[Any, ...]]) -> Iterator[Problem]:
    """Yields what is wrong with undirected links ``(a, b)`` or ``(a, b, latency)``; paths start at ``links``."""
    first: dict[frozenset[str], int] = {}
    for index, (a, b, *_) in enumerate(links):
        if a == b:
            yield Problem(
                ("links", index), f"the link joins {a!r} to itself; allowed: links between two different nodes"
            )
            continue
        before = first.setdefault(frozenset((a, b)), index)
        if before != index:
            yield Problem(
                ("links", index),
                f"the link {a!r} - {b!r} is there already, as number {before + 1} of the list;"
                " links are undirected: write each once, in either direction",
            )
    yield from _connection_problems(links)


def _connection_problems(links: Sequence[tuple[Any, ...]]) -> Iterator[Problem]:
    graph: nx.Graph[str] = nx.Graph()
    graph.add_edges_from((a, b) for a, b, *_ in links)
    parts = [next(iter(part)) if len(part) == 1 else min(part) for part in nx.connected_components(graph)]
    if len(parts) > 1:
        shown = ", ".join(repr(name) for name in parts[:_SHOWN_PARTS])
        more = f" and {len(parts) - _SHOWN_PARTS} more" if len(parts) > _SHOWN_PARTS else ""
        yield Problem(
            ("links",),
            f"the links leave {len(parts)} parts that are not connected, with one node of each: {shown}{more};"
            " add links between them",
        )
