"""The state of one node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from oracles.delta.detectors import DETECTORS
from oracles.delta.messages import Item, Key, Stamp
from oracles.delta.schedule import Call
from oracles.delta.view import Link, Path, View, link

if TYPE_CHECKING:
    from oracles.delta.network import Network


class Status(Enum):
    """The status of a node; only an OPERATIONAL node is VALID_JOINED and accepts calls."""

    FAILED = "FAILED"
    DETACHED = "DETACHED"
    ATTACHED = "ATTACHED"
    RECOVERING = "RECOVERING"
    OPERATIONAL_STAR = "OPERATIONAL*"
    OPERATIONAL = "OPERATIONAL"


@dataclass
class Connection:
    """An entry of Connections_N; it is pending until the peer's incarnation is known."""

    arrival: int
    incarnation: int | None = None
    is_recovering: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the connection is open: the peer has answered, or has opened the connection itself."""
        return self.incarnation is not None


@dataclass(frozen=True)
class Entry:
    """An entry of SUBS_SET_N: the subscription's ``from`` at N, and the distance of the ``from``."""

    origin: int
    distance: int


class Node:
    """A node. The constructor sets the durable state, ``forget`` sets the volatile state."""

    def __init__(self, name: int, network: Network) -> None:
        self.name = name
        self.network = network
        self.delta = network.delta
        self.view = View(name, network.delta)
        self.incarnation = 0
        self.own: set[int] = set()
        self.delivered: dict[int, int] = {}
        self.join_point = -1
        self.status = Status.DETACHED
        self.forget()

    def forget(self) -> None:
        """Resets the volatile state."""
        self.connections: dict[int, Connection] = {}
        self.entries: dict[int, Entry] = {}
        self.removed: set[int] = set()
        self.processing: dict[Key, Item] = {}
        self.detector = DETECTORS[self.network.detector]()
        self.handled: set[Key] = set()
        self.synch: set[int] = set()
        self.answered: set[int] = set()
        self.deferred: set[int] = set()
        self.calls: list[Call] = []
        self.requests: dict[int, int] = {}
        self.has_bypassed = False
        self._stamped = (-1, 0)

    def stamp(self) -> Stamp:
        """timeStamp_N(): returns the round, and the number of earlier stamps in the round."""
        now = self.network.round
        self._stamped = (now, self._stamped[1] + 1 if self._stamped[0] == now else 0)
        return self._stamped

    @property
    def routes(self) -> bool:
        """Whether the node runs Algorithm 1 on plain messages."""
        return self.status in (Status.ATTACHED, Status.OPERATIONAL_STAR, Status.OPERATIONAL)

    @property
    def synchronises(self) -> bool:
        """Whether the node is collecting routing information from its peers."""
        return self.status in (Status.ATTACHED, Status.RECOVERING)

    def become(self, status: Status) -> None:
        """Changes the status and records the change."""
        self.status = status
        self.network.statuses.append((self.network.round, self.name, status.value))

    def closest(self, path: Path) -> int | None:
        """Returns the nearest connected node on a path from N; None if no node on the path is connected."""
        return next((x for x in path[1:] if x in self.connections), None)

    @property
    def own_link(self) -> Link:
        """The link that the node's own join creates."""
        return link(self.name, self.join_point)

    @property
    def has_joined(self) -> bool:
        """Whether the node was in the tree from the start, or its own J is confirmed."""
        return not self.view.marks.get(self.own_link, self.join_point >= 0)

    def merge_entry(self, subscription: int, entry: Entry) -> None:
        """Stores an entry of a subscription unless it was removed or the stored ``from`` is at least as far."""
        held = self.entries.get(subscription)
        if subscription not in self.removed and (held is None or held.distance < entry.distance):
            self.entries[subscription] = entry

    def remove_entry(self, subscription: int) -> None:
        """Removes a subscription permanently; its identifier is stored as a tombstone."""
        self.removed.add(subscription)
        self.entries.pop(subscription, None)
