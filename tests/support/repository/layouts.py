"""The benchmark topologies of section 5 and other small networks, and counts of messages on links."""

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
"""The round in which `Layout.published` publishes; all clients have a steering repository before this round."""
LONG = 1000
TIMERS = (
    "publisher_rounds", "failure_rounds", "acknowledge_rounds", "wait_rounds", "nak_rounds", "rectify_rounds",
    "idle_rounds", "assist_rounds", "gossip_rounds", "fetch_rounds",
)  # fmt: skip
QUIET = dict.fromkeys(TIMERS, LONG)
"""Settings with timers so long that no message is repeated."""


class Layout:
    """A network of brokers in a chain, repositories and clients, in which nodes are addressed by name.

    Attributes:
        ids: Maps names of nodes to ids.
        network: The network.
        faults: A function from the messages of a round to the messages after link faults.
    """

    def __init__(
        self, n_brokers: int, repositories: dict[str, int], clients: dict[str, int], *,
        links: tuple[tuple[int, int], ...] = (), **settings: Any,
    ) -> None:  # fmt: skip
        """Builds the network.

        Args:
            n_brokers: The number of brokers ``b1``, ``b2``, ... in the chain.
            repositories: Maps each repository to the number of its broker.
            clients: Maps each client to the number of its broker.
            links: Additional links between brokers.
            settings: The settings of the protocol that differ from the defaults.
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
        """Schedules a call of a node on topic ``t``."""
        self.network.call(self.ids[name], kind, round_, **{"topic": "t", **of})

    def subscribe(self, *names: str, round_: int = 1) -> tuple[int, ...]:
        """Schedules subscriptions of clients, and returns the ids; the id of a subscription is the id of its client."""
        for name in names:
            self.call(name, "subscribe", round_, subscription_id=self.ids[name])
        return tuple(self.ids[name] for name in names)

    def publish(self, name: str, *rounds: int, matches: tuple[int, ...]) -> None:
        """Schedules a publication of a client in each of ``rounds``."""
        for round_ in rounds:
            self.call(name, "publish", round_, matches=matches)

    def crash(self, name: str, round_: int, end_round: int | None = None) -> None:
        """Schedules a crash of a node."""
        self.network.crash(self.ids[name], round_, end_round)

    def node(self, name: str) -> Any:
        """Returns the state of a node."""
        return self.network.node(self.ids[name])

    def deliveries(self, name: str) -> list[tuple[int, int]]:
        """Returns the round and the publication's call number of each delivery of a client."""
        return [(round_, one.source_seq) for node, round_, one in self.network.rows.delivered if node == self.ids[name]]

    def delivered(self, name: str) -> list[int]:
        """Returns the call numbers of the publications that a client has delivered, in order."""
        return [seq for _, seq in self.deliveries(name)]

    def sent(self, kind: str, since: int = 0) -> list[Flight]:
        """Returns the messages of a kind that their origin has sent, without the copies that other nodes forwarded."""
        found = [*self.network.rows.handled, *self.network.in_flight]
        return [one for one in found if one.kind == kind and one.sent_round >= since and one.src == one.message.origin]

    def slots(self, name: str) -> list[tuple[int, str, int, int]]:
        """Returns number, status, incarnation and n of each slot of a repository, except actions."""
        slots = self.node(name).slot.values()
        return [(one.seq, one.status, one.incarnation, one.n) for one in slots if one.status != "action"]

    def published(self, **settings: Any) -> Layout:
        """Plays a run in which ``p`` publishes one message that matches all subscriptions, until it is delivered."""
        subscribers = tuple(name for name in self.ids if name.startswith("s"))
        self.publish("p", PUBLISHED, matches=self.subscribe(*subscribers))
        self.network.play(PUBLISHED + 50)
        return self

    def on_links(self) -> Counter[str]:
        """Counts the messages on links since the publication, by kind."""
        return Counter(one.kind for one in self.network.rows.handled if one.sent_round >= PUBLISHED)

    def end_to_end(self) -> Counter[str]:
        """Counts the arrivals of messages at their final receivers since the publication, by kind."""
        rows = self.network.rows.handled
        return Counter(one.kind for one in rows if one.sent_round >= PUBLISHED and one.dst in one.message.to)


def a(n_subscribers: int, **settings: Any) -> Layout:
    """Returns topology A: one broker, one repository."""
    return Layout(1, {"r1": 1}, _clients(n_subscribers, 1), **{**QUIET, **settings})


def b(n_subscribers: int, at: int, **settings: Any) -> Layout:
    """Returns topology B: three brokers in a chain, one repository."""
    return Layout(3, {"r1": at}, _clients(n_subscribers, 3), **{**QUIET, **settings})


def c(n_subscribers: int, n_repositories: int = 3, **settings: Any) -> Layout:
    """Returns topology C: brokers in a chain, a repository at each broker."""
    repositories = {f"r{one}": one for one in range(1, n_repositories + 1)}
    return Layout(n_repositories, repositories, _clients(n_subscribers, n_repositories), **{**QUIET, **settings})


def _clients(n_subscribers: int, n_brokers: int) -> dict[str, int]:
    return {"p": 1, **{f"s{one}": one % n_brokers + 1 for one in range(n_subscribers)}}


def losing(wanted: Callable[[Flight], bool]) -> Strike:
    """Returns a link fault that loses the messages for which ``wanted`` is true."""
    return lambda flights: [one._replace(fate="lost_link") if wanted(one) else one for one in flights]
