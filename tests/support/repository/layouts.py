"""The benchmark topologies of section 5, small networks by hand, and counts of what is on links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from pipelines.protocols.repository import RepositorySettings
from udfs.nodes.local import LocalNetwork
from udfs.nodes.network import Strike
from udfs.nodes.world import Flight, NodeInfo
from udfs.repository.program import Repository

PUBLISHED = 200
"""The round in which `Layout.published` publishes: all clients have their steering repositories."""
LONG = 1000
TIMERS = (
    "publisher_rounds", "failure_rounds", "acknowledge_rounds", "wait_rounds", "nak_rounds", "rectify_rounds",
    "idle_rounds", "assist_rounds", "gossip_rounds", "fetch_rounds",
)  # fmt: skip
QUIET = dict.fromkeys(TIMERS, LONG)
"""Settings under which nothing is repeated."""


class Layout:
    """Brokers in a chain with repositories and clients; node ids by name.

    Attributes:
        ids: The id of each node.
        network: The run.
        faults: What faults of links make of messages.
    """

    def __init__(
        self, n_brokers: int, repositories: dict[str, int], clients: dict[str, int], *,
        links: tuple[tuple[int, int], ...] = (), **settings: Any,
    ) -> None:  # fmt: skip
        """Sets the nodes.

        Args:
            n_brokers: Brokers ``b1``, ``b2``, ... in a chain.
            repositories: The broker of each repository.
            clients: The broker of each client.
            links: More links between brokers.
            settings: The protocol's settings, beside the defaults.
        """
        names = [f"b{one}" for one in range(1, n_brokers + 1)]
        roles = [*((name, "broker") for name in names), *((name, "repository") for name in repositories)]
        roles += [(name, "client") for name in clients]
        self.ids = {name: node for node, (name, _) in enumerate(roles)}
        both = [*pairwise(names), *((f"b{a}", f"b{b}") for a, b in links)]
        both += [(f"b{broker}", name) for name, broker in {**repositories, **clients}.items()]
        self.faults: Strike = list
        self.network = LocalNetwork(
            Repository,
            nodes=[NodeInfo(self.ids[name], name, role) for name, role in roles],
            links={(self.ids[a], self.ids[b]): 1 for a, b in both},
            settings=RepositorySettings(**settings).model_dump(),
            strike=lambda flights: self.faults(flights),
        )

    def call(self, name: str, kind: str, round_: int, **of: Any) -> None:
        """Has a node issue a call on topic ``t``."""
        self.network.call(self.ids[name], kind, round_, **{"topic": "t", **of})

    def subscribe(self, *names: str, round_: int = 1) -> tuple[int, ...]:
        """Has clients subscribe; a subscription has the id of its client. Returns the ids."""
        for name in names:
            self.call(name, "subscribe", round_, subscription_id=self.ids[name])
        return tuple(self.ids[name] for name in names)

    def publish(self, name: str, *rounds: int, matches: tuple[int, ...]) -> None:
        """Has a client publish in some rounds."""
        for round_ in rounds:
            self.call(name, "publish", round_, matches=matches)

    def crash(self, name: str, round_: int, end_round: int | None = None) -> None:
        """Has a node crash."""
        self.network.crash(self.ids[name], round_, end_round)

    def node(self, name: str) -> Any:
        """Returns the state of a node."""
        return self.network.node(self.ids[name])

    def deliveries(self, name: str) -> list[tuple[int, int]]:
        """Returns the round and number of what a client has delivered."""
        return [(round_, one.source_seq) for node, round_, one in self.network.rows.delivered if node == self.ids[name]]

    def delivered(self, name: str) -> list[int]:
        """Returns the numbers of what a client has delivered, in order."""
        return [seq for _, seq in self.deliveries(name)]

    def sent(self, kind: str, since: int = 0) -> list[Flight]:
        """Returns the events of a kind where they start."""
        found = [*self.network.rows.handled, *self.network.in_flight]
        return [one for one in found if one.kind == kind and one.sent_round >= since and one.src == one.message.origin]

    def slots(self, name: str) -> list[tuple[int, str, int, int]]:
        """Returns the slots of a repository: number, status, incarnation, n; without actions."""
        slots = self.node(name).slot.values()
        return [(one.seq, one.status, one.incarnation, one.n) for one in slots if one.status != "action"]

    def published(self, **settings: Any) -> Layout:
        """Has ``p`` publish one message that satisfies all subscriptions, and plays until it is done."""
        subscribers = tuple(name for name in self.ids if name.startswith("s"))
        self.publish("p", PUBLISHED, matches=self.subscribe(*subscribers))
        self.network.play(PUBLISHED + 50)
        return self

    def on_links(self) -> Counter[str]:
        """Returns the rows on links since the publication, by kind."""
        return Counter(one.kind for one in self.network.rows.handled if one.sent_round >= PUBLISHED)

    def end_to_end(self) -> Counter[str]:
        """Returns the arrivals at receivers since the publication, by kind."""
        rows = self.network.rows.handled
        return Counter(one.kind for one in rows if one.sent_round >= PUBLISHED and one.dst in one.message.to)


def a(n_subscribers: int, **settings: Any) -> Layout:
    """Topology A: one broker, one repository."""
    return Layout(1, {"r1": 1}, _clients(n_subscribers, 1), **{**QUIET, **settings})


def b(n_subscribers: int, at: int, **settings: Any) -> Layout:
    """Topology B: three brokers in a chain, one repository."""
    return Layout(3, {"r1": at}, _clients(n_subscribers, 3), **{**QUIET, **settings})


def c(n_subscribers: int, n_repositories: int = 3, **settings: Any) -> Layout:
    """Topology C: brokers in a chain, a repository at each."""
    repositories = {f"r{one}": one for one in range(1, n_repositories + 1)}
    return Layout(n_repositories, repositories, _clients(n_subscribers, n_repositories), **{**QUIET, **settings})


def _clients(n_subscribers: int, n_brokers: int) -> dict[str, int]:
    return {"p": 1, **{f"s{one}": one % n_brokers + 1 for one in range(n_subscribers)}}


def losing(wanted: Callable[[Flight], bool]) -> Strike:
    """Returns faults of links that lose certain messages."""
    return lambda flights: [one._replace(fate="lost_link") if wanted(one) else one for one in flights]
