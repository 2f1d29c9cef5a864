"""The detector of legitimate states of a topic: it checks all nodes and the messages in flight (section 5, rule K9).

The detector checks the node program, so it takes the correct topology from `definition`, which shares no code with the
node program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from udfs.nodes.world import Flight
from udfs.skipring.definition import nth, skip_ring
from udfs.skipring.history import ConfigurationChange

KINDS = ("Introduce", "IntroduceShortcut", "SetData", "Remove", "Subscribe", "Unsubscribe", "GetConfiguration")
"""The kinds of messages whose contents decide whether a state is legitimate.

These messages name a node with its label, or request that a supervisor records or removes a node.
"""


class TopicState:
    """The state of a topic at the end of a round.

    Attributes:
        topic: Name of the topic.
        supervisor: Id of the topic's supervisor; None if the run has no supervisor.
        kept: The ring state of each node that is up, or None if the node has no state for the topic.
        databases: The subscriber of each label, in the database of each node. None if the tuple is corrupted and has no
            subscriber.
        crashed: Subscribers whose crash the failure detector has reported to the supervisor.
    """

    def __init__(self, topic: str, supervisor: int | None) -> None:
        """Starts with a topic that has no state."""
        self.topic = topic
        self.supervisor = supervisor
        self.kept: dict[int, ConfigurationChange | None] = {}
        self.databases: dict[int, dict[str, int | None]] = {}
        self.crashed: set[int] = set()

    @property
    def entries(self) -> Mapping[str, int | None]:
        """The database of the topic's supervisor."""
        return {} if self.supervisor is None else self.databases.get(self.supervisor, {})

    @property
    def members(self) -> set[int]:
        """Ids of the subscribers that are up."""
        return {node for node, own in self.kept.items() if own is not None and own.wants}

    def explicit_problem(self) -> str | None:
        """Returns the first reason why the explicit state is not legitimate, or None if it is legitimate."""
        return next(self._problems(), None)

    def potential(self) -> int:
        """Returns the potential: the number of reasons why the explicit state is not legitimate."""
        return sum(1 for _ in self._problems())

    def _problems(self) -> Iterator[str]:
        yield from self._database()
        yield from self._ring()
        yield from self._departed()
        for node in sorted(node for node, entries in self.databases.items() if entries and node != self.supervisor):
            yield f"node {node} has a database, and is not the topic's supervisor"

    def implicit_problem(self, flights: Iterable[Flight]) -> str | None:
        """Returns a description of the first message in `flights` that contradicts the database.

        Returns None if no message contradicts it. The method assumes a legitimate explicit state.
        """
        labels, members = {node: label for label, node in self.entries.items()}, self.members
        for flight in flights:
            if flight.fate is not None or flight.kind not in KINDS:
                continue
            body = flight.message if isinstance(flight.message, dict) else asdict(flight.message)
            if body["topic"] == self.topic and not self._is_true(flight, body, labels, members):
                return f"{flight.kind} {flight.message_id} to node {flight.dst} differs from the database"
        return None

    def _database(self) -> Iterator[str]:
        entries, members = self.entries, self.members
        n = len(members)
        if len(entries) != n:
            yield f"the database has {len(entries)} tuples, and {n} nodes have subscribed"
        for label in map(nth, range(n)):
            if label not in entries:
                yield f"label {label} is missing in the database"
        for label, node in self._tuples():
            if node not in members:
                yield f"label {label} is of node {node}, which has not subscribed or is down"
        if len({*entries.values()}) != n:
            yield "a subscriber has several labels"

    def _tuples(self) -> list[tuple[str, int | None]]:
        return sorted(self.entries.items(), key=lambda item: (len(item[0]), item[0]))

    def _ring(self) -> Iterator[str]:
        entries = self.entries
        places = skip_ring(len(entries))
        for label, node in self._tuples():
            own, place = None if node is None else self.kept.get(node), places.get(label)
            if own is None or own.label != label or place is None:
                yield f"node {node} does not have its label {label}"
                continue
            sides = tuple(None if one is None else (entries.get(one), one) for one in place.sides(label))
            if tuple(None if one is None else (one.node, one.label) for one in own.on_ring) != sides:
                yield f"node {node} has wrong neighbours on the ring"
            elif {one.label: one.node for one in own.slots} != {one: entries.get(one) for one in place.shortcuts}:
                yield f"node {node} has wrong shortcuts"

    def _departed(self) -> Iterator[str]:
        for node, own in self.kept.items():
            if own is not None and not own.wants and (own.label, *own.on_ring, own.slots) != (None,) * 4 + ((),):
                yield f"node {node} has left and holds a label or edges"

    def _is_true(
        self, flight: Flight, body: Mapping[str, Any], labels: Mapping[int | None, str], members: set[int]
    ) -> bool:  # fmt: skip
        """Returns whether the nodes and labels in a message agree with the database."""
        kind, src, dst = flight.kind, flight.src, flight.dst
        if kind == "SetData":
            return self._is_configuration(body, labels.get(dst))
        if kind == "Remove":
            return body["node"] not in members
        if kind == "Unsubscribe":
            return src not in members
        if kind in ("Subscribe", "GetConfiguration"):
            return src in members or src in self.crashed
        is_believed = body.get("believed") is None or digits(body["believed"]) == labels.get(dst)
        return labels.get(body["node"]) == digits(body["label"]) and is_believed

    def _is_configuration(self, body: Mapping[str, Any], label: str | None) -> bool:
        found = [body.get("predecessor"), body.get("successor")]
        beside = [None if one is None else (one["node"], digits(one["label"])) for one in found]
        entries = self.entries
        place = None if label is None else skip_ring(len(entries)).get(label)
        right = (None, None) if place is None else (place.before, place.after)
        is_own = (None if body.get("label") is None else digits(body["label"])) == label
        return is_own and beside == [None if one is None else (entries.get(one), one) for one in right]


def digits(label: Mapping[str, int]) -> str:
    """Returns the digits of `label`, a dictionary from the body of a message."""
    return f"{label['numerator']:0{label['bits']}b}"


@dataclass
class Convergence:
    """The convergence of a topic, updated round by round.

    Attributes:
        explicit_round: The round since which the explicit state is legitimate, or None if it is not legitimate. After
            `clean_round` the value does not change.
        clean_round: The first round in which the explicit state and the messages in flight are legitimate. From this
            round on, closure must hold.
        problem: The reason why the last round is not legitimate, or None if the last round is legitimate.
        broken_round: The first round after `clean_round` in which the explicit state is not legitimate.
    """

    explicit_round: int | None = None
    clean_round: int | None = None
    problem: str | None = None
    broken_round: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the explicit state is legitimate, but the messages in flight have not been legitimate yet."""
        return self.explicit_round is not None and self.clean_round is None

    def observe(self, round_: int, state: TopicState, flights: Iterable[Flight]) -> None:
        """Updates the convergence with the state and the messages in flight at the end of round `round_`."""
        self.problem = state.explicit_problem()
        if self.problem is not None:
            if self.clean_round is None:
                self.explicit_round = None
            elif self.broken_round is None:
                self.broken_round = round_
            return
        if self.explicit_round is None:
            self.explicit_round = round_
        if self.clean_round is None:
            self.problem = state.implicit_problem(flights)
            self.clean_round = round_ if self.problem is None else None
