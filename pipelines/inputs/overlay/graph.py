"""The one form in which an overlay reaches the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Overlay:
    """A connected overlay of brokers, in the order in which its source names them, with the clients at them.

    Attributes:
        names: One name a node; a node's id is its index here. Clients come last.
        a: One end of each undirected link, a node id; shape (links,), a < b, links sorted by (a, b).
        b: The other end of each link; shape (links,).
        latency_rounds: Whole rounds of one hop, at least 1; shape (links,).
        n_clients: How many of the nodes are clients; each has one link, to its edge broker.
    """

    names: tuple[str, ...]
    a: Ints
    b: Ints
    latency_rounds: Ints
    n_clients: int = 0

    @property
    def n_brokers(self) -> int:
        """How many of the nodes are brokers: those with the lowest ids."""
        return len(self.names) - self.n_clients

    @property
    def is_tree(self) -> bool:
        """Whether the (connected) overlay has no cycle."""
        return len(self.a) == len(self.names) - 1
