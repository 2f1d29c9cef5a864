"""The one form in which an overlay reaches the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Overlay:
    """A connected overlay of brokers, in the order in which its source names them, with servers and clients at them.

    Attributes:
        names: One name a node; a node's id is its index here. Servers and then clients come last.
        a: One end of each undirected link, a node id; shape (links,), a < b, links sorted by (a, b).
        b: The other end of each link; shape (links,).
        latency_rounds: Whole rounds of one hop from ``a`` to ``b``, at least 1; shape (links,).
        n_clients: How many of the nodes are clients; each has one link, to its edge broker. Where the protocol makes
            the overlay itself there are no links: brokers are its servers, clients all that have applications.
        roles: What brokers and clients are called in table ``node``.
        n_servers: How many of the nodes are servers; each has one link, to its edge broker.
        notes: What the user should know about how it came from its source, a sentence each.
        back_rounds: Whole rounds of one hop from ``b`` to ``a``; shape (links,). None: as many as from ``a`` to ``b``.
    """

    names: tuple[str, ...]
    a: Ints
    b: Ints
    latency_rounds: Ints
    n_clients: int = 0
    roles: tuple[str, str] = ("broker", "client")
    n_servers: int = 0
    notes: tuple[str, ...] = ()
    back_rounds: Ints | None = None

    @property
    def directed_rounds(self) -> Ints:
        """Whole rounds from ``a`` to ``b`` of each link, then from ``b`` to ``a``; shape (2 * links,)."""
        back = self.latency_rounds if self.back_rounds is None else self.back_rounds
        return np.concatenate([self.latency_rounds, back])

    @property
    def n_brokers(self) -> int:
        """How many of the nodes are brokers: those with the lowest ids."""
        return len(self.names) - self.n_servers - self.n_clients

    @property
    def first_client(self) -> int:
        """The lowest id of clients; the number of nodes where no client exists."""
        return len(self.names) - self.n_clients

    @property
    def has_links(self) -> bool:
        """Whether there are links before the protocol makes some."""
        return len(self.a) > 0 or len(self.names) == 1

    @property
    def applications(self) -> Ints:
        """The nodes that may have applications: all, or where others serve them, the clients."""
        is_served = not self.has_links or self.n_servers > 0
        return np.arange(self.first_client if is_served else 0, len(self.names), dtype=np.int64)

    @property
    def is_tree(self) -> bool:
        """Whether the (connected) overlay has no cycle."""
        return len(self.a) == len(self.names) - 1
