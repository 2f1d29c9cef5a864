"""The detector of legitimate states of a topic: it checks all nodes and the messages in flight (section 5, rule K9).

The detector checks the node program, so it takes the correct topology from `definition`, which shares no code with the
node program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from udfs.nodes.world import Flight
from udfs.skipring.definition import nth, skip_ring
from udfs.skipring.history import ConfigurationChange

KINDS = ("Introduce", "IntroduceShortcut", "SetData", "Remove", "Subscribe", "Unsubscribe", "GetConfiguration")
"""The kinds of messages whose contents decide whether a state is legitimate.

These messages name a node with its label, or request that a supervisor records or removes a node.
"""
Tuples = Mapping[str, int | None]
"""The subscriber of each label in a database. None if the tuple is corrupted and has no subscriber."""


class Snapshot:
    """The state of a topic at the end of a round: the ring state of each node, the database, and crash reports."""

    def __init__(
        self, topic: str, kept: Mapping[int, ConfigurationChange | None], entries: Tuples, crashed: Collection[int],
        strays: Iterable[int] = (),
    ) -> None:  # fmt: skip
        """Stores the state.

        Args:
            topic: Name of the topic.
            kept: The ring state of each node that is up, or None if the node has no state for the topic.
            entries: The database of the topic's supervisor.
            crashed: Subscribers whose crash the failure detector has reported to the supervisor.
            strays: Nodes other than the supervisor that have a database of the topic.
        """
        self._topic = topic
        self._kept = kept
        self._members = {node for node, own in kept.items() if own is not None and own.wants}
        self._entries = dict(entries)
        self._crashed = crashed
        self._strays = sorted(strays)

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
        for node in self._strays:
            yield f"node {node} has a database, and is not the topic's supervisor"

    def implicit_problem(self, flights: Iterable[Flight]) -> str | None:
        """Returns a description of the first message in `flights` that contradicts the database.

        Returns None if no message contradicts it. The method assumes a legitimate explicit state.
        """
        labels = {node: label for label, node in self._entries.items()}
        for flight in flights:
            if flight.fate is not None or flight.kind not in KINDS:
                continue
            body = flight.message if isinstance(flight.message, dict) else asdict(flight.message)
            if body["topic"] == self._topic and not self._is_true(flight, body, labels):
                return f"{flight.kind} {flight.message_id} to node {flight.dst} differs from the database"
        return None

    def _database(self) -> Iterator[str]:
        n = len(self._members)
        if len(self._entries) != n:
            yield f"the database has {len(self._entries)} tuples, and {n} nodes have subscribed"
        for label in map(nth, range(n)):
            if label not in self._entries:
                yield f"label {label} is missing in the database"
        for label, node in self._tuples():
            if node not in self._members:
                yield f"label {label} is of node {node}, which has not subscribed or is down"
        if len({*self._entries.values()}) != n:
            yield "a subscriber has several labels"

    def _tuples(self) -> list[tuple[str, int | None]]:
        return sorted(self._entries.items(), key=lambda item: (len(item[0]), item[0]))

    def _ring(self) -> Iterator[str]:
        places = skip_ring(len(self._entries))
        for label, node in self._tuples():
            own, place = None if node is None else self._kept.get(node), places.get(label)
            if own is None or own.label != label or place is None:
                yield f"node {node} does not have its label {label}"
                continue
            sides = tuple(None if one is None else (self._entries.get(one), one) for one in place.sides(label))
            if tuple(None if one is None else (one.node, one.label) for one in own.on_ring) != sides:
                yield f"node {node} has wrong neighbours on the ring"
            elif {one.label: one.node for one in own.slots} != {one: self._entries.get(one) for one in place.shortcuts}:
                yield f"node {node} has wrong shortcuts"

    def _departed(self) -> Iterator[str]:
        for node, own in self._kept.items():
            if own is not None and not own.wants and (own.label, *own.on_ring, own.slots) != (None,) * 4 + ((),):
                yield f"node {node} has left and holds a label or edges"

    def _is_true(self, flight: Flight, body: Mapping[str, Any], labels: Mapping[int | None, str]) -> bool:
        """Returns whether the nodes and labels in a message agree with the database."""
        kind, src, dst = flight.kind, flight.src, flight.dst
        if kind == "SetData":
            return self._is_configuration(body, labels.get(dst))
        if kind == "Remove":
            return body["node"] not in self._members
        if kind == "Unsubscribe":
            return src not in self._members
        if kind in ("Subscribe", "GetConfiguration"):
            return src in self._members or src in self._crashed
        is_believed = body.get("believed") is None or digits(body["believed"]) == labels.get(dst)
        return labels.get(body["node"]) == digits(body["label"]) and is_believed

    def _is_configuration(self, body: Mapping[str, Any], label: str | None) -> bool:
        found = [body.get("predecessor"), body.get("successor")]
        beside = [None if one is None else (one["node"], digits(one["label"])) for one in found]
        place = None if label is None else skip_ring(len(self._entries)).get(label)
        right = (None, None) if place is None else (place.before, place.after)
        is_own = (None if body.get("label") is None else digits(body["label"])) == label
        return is_own and beside == [None if one is None else (self._entries.get(one), one) for one in right]


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

    def observe(self, round_: int, snapshot: Snapshot, flights: Iterable[Flight]) -> None:
        """Updates the convergence with the state and the messages in flight at the end of round `round_`."""
        self.problem = snapshot.explicit_problem()
        if self.problem is not None:
            if self.clean_round is None:
                self.explicit_round = None
            elif self.broken_round is None:
                self.broken_round = round_
            return
        if self.explicit_round is None:
            self.explicit_round = round_
        if self.clean_round is None:
            self.problem = snapshot.implicit_problem(flights)
            self.clean_round = round_ if self.problem is None else None
