"""The interface between handlers and the run: handlers act and read data of the run only through a `Context`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Integral
from typing import Annotated, Any, NamedTuple

from udfs.nodes.hashing import uniform
from udfs.nodes.records import record
from udfs.nodes.run import RunView

_DROPPED = "duplicate", "lost_crash", "lost_link"
"""The fates of messages that nodes drop."""


class SentMessage(NamedTuple):
    """A message that a node sends to `dst`. A `latency_rounds` of None stands for the latency of the link."""

    dst: int
    message: Any
    latency_rounds: int | None


_tuple = tuple.__new__
"""Constructs a named tuple from a tuple, in a third of the time of the class's own constructor."""


class Delivery(NamedTuple):
    """A delivery of a publication to the application of a node."""

    source: int
    source_seq: int
    latency_rounds: int
    hops: int


@record(key="peer")
class Watched:
    """A node that another node watches for crashes."""

    peer: Annotated[int, "the watched node"]
    latency_rounds: Annotated[int, "latency of the connection to the watched node, in rounds"]
    round: Annotated[int, "the round in which the watch started"]


@dataclass
class Internal:
    """The state of a node that belongs to the runtime, not to the program.

    Attributes:
        started_round: The round in which the node restarted after its last crash, or -1 if it has not crashed.
        timers: The round in which each timer expires, by (name, key).
        watched: The watch on each watched node.
    """

    started_round: int = -1
    timers: dict[tuple[str, int], int] = field(default_factory=dict)
    watched: dict[int, Watched] = field(default_factory=dict)

    @property
    def wake_round(self) -> int | None:
        """The round in which the next timer expires, or None if no timer is set."""
        return min(self.timers.values(), default=None)


def _whole(rounds: object, what: str) -> int:
    if not isinstance(rounds, Integral) or rounds < 1:
        raise ValueError(f"{what}={rounds!r}; allowed: 1 or more whole rounds")
    return int(rounds)


class Context:
    """The interface between the handlers of one node and the run, in one round.

    Attributes:
        node: The id of the node.
        round: The number of the round.
        settings: The settings of the protocol.
        message_id: The id of the message that the node is handling, or None if the node handles no message.
        sent_round: The round in which the handled message was sent, or None if the node handles no message.
        run: The links, crashes and subscribers of the run.
    """

    __slots__ = (
        "_internal", "_seed", "confirmed", "connected", "deliveries", "fates", "issued", "message_id", "node", "round",
        "run", "sent", "sent_round", "settings", "statuses",
    )  # fmt: skip

    def __init__(
        self, node: int, round_: int, settings: Mapping[str, Any], internal: Internal, run: RunView | None = None
    ) -> None:
        """Creates the context of a node in round `round_`, without actions."""
        self.node = node
        self.settings = settings
        self._internal = internal
        self._seed = settings.get("seed", 0)
        self.message_id: int | None = None
        self.sent_round: int | None = None
        self.begin(round_, run or RunView())

    def begin(self, round_: int, run: RunView) -> None:
        """Starts round `round_` with empty lists of actions. A node keeps its context until it crashes."""
        self.round, self.run = round_, run
        self.sent: list[SentMessage] = []
        self.deliveries: list[Delivery] = []
        self.statuses: list[str] = []
        self.confirmed: list[int] = []
        self.fates: list[tuple[int, str]] = []
        self.connected: list[int] = []
        self.issued: list[int] = []

    def send(self, dst: int, message: Any, after: int | None = None) -> None:  # noqa: ANN401
        """Sends a message. Within a round, the order of calls of `send` is the order of the node's message ids.

        Args:
            dst: The receiver. If ``after`` is ``None``, a link from this node to the receiver must exist.
            message: An instance of a message class of the program.
            after: Rounds until the message is due, at least 1; None for the latency of the link.

        Raises:
            ValueError: ``after`` is not a whole number of at least 1.
        """
        if after is not None and (type(after) is not int or after < 1):
            after = _whole(after, f"{message!r} to node {dst} is sent with after")
        self.sent.append(_tuple(SentMessage, (dst, message, after)))

    def send_all(self, message: Any, besides: int | None = None) -> None:  # noqa: ANN401
        """Sends a message to all neighbours, in ascending order, except to `besides`."""
        for neighbour in self.neighbours:
            if neighbour != besides:
                self.send(neighbour, message)

    def set_timer(self, name: str, key: int = 0, rounds: int = 1) -> None:
        """Sets or resets a timer. A timer lives until it expires, is cancelled, or its node crashes.

        Args:
            name: The purpose of the timer.
            key: Distinguishes timers of one name.
            rounds: Rounds until the timer expires, at least 1.

        Raises:
            ValueError: ``rounds`` is not a whole number of at least 1.
        """
        if type(rounds) is not int or rounds < 1:
            rounds = _whole(rounds, f"timer {name!r} is set with rounds")
        self._internal.timers[name, key] = self.round + rounds

    def is_set(self, name: str, key: int = 0) -> bool:
        """Returns whether timer (`name`, `key`) is set."""
        return (name, key) in self._internal.timers

    def cancel_timer(self, name: str, key: int = 0) -> None:
        """Cancels timer (`name`, `key`). Does nothing if the timer is not set."""
        self._internal.timers.pop((name, key), None)

    def watch(self, peer: int, latency_rounds: int = 0) -> None:
        """Starts a watch on `peer`: handler `on_down` gets a report if `peer` is down or when it crashes.

        The report arrives after the detection delay plus `latency_rounds`, the latency of the connection, in the next
        round at the earliest.
        """
        self._internal.watched[peer] = Watched(peer, latency_rounds, self.round)
        self.connected.append(peer)

    def unwatch(self, peer: int) -> None:
        """Ends the watch on `peer`; does nothing if no watch exists."""
        self._internal.watched.pop(peer, None)

    @property
    def watched(self) -> Mapping[int, Watched]:
        """The watch on each watched node, by node id."""
        return self._internal.watched

    def deliver(self, source: int, source_seq: int, issued_round: int, hops: int) -> None:
        """Delivers a publication to the application of this node.

        Args:
            source: The id of the publisher.
            source_seq: The number of the publication among the calls of `source`.
            issued_round: The round in which `source` issued the publication.
            hops: The number of links that the delivered copy has traversed.
        """
        self.deliveries.append(Delivery(source, source_seq, self.round - issued_round, hops))

    @property
    def neighbours(self) -> Mapping[int, int]:
        """The latency of each overlay link from this node to a neighbour, by neighbour, in ascending order."""
        return self.run.neighbours(self.node)

    def route_latency(self, path: Sequence[int]) -> int:
        """Returns the sum of the latencies of the links along `path`.

        Raises:
            LookupError: A link of the path does not exist.
        """
        try:
            return sum(self.run.links[link] for link in pairwise(path))
        except KeyError as error:
            raise LookupError(f"path {tuple(path)} contains {error}, which is not a link") from error

    def issue(self, source_seq: int) -> None:
        """Issues the call with number `source_seq`. The call is due in this round, or held since an earlier round.

        Only programs with `NodeProgram.holds_calls` issue calls themselves.
        """
        self.issued.append(source_seq)

    def confirm(self, source_seq: int) -> None:
        """Confirms the call with number `source_seq` to this node's application."""
        self.confirmed.append(source_seq)

    def status(self, status: str) -> None:
        """Records in table ``node_status`` that the node has status `status` from the present round on."""
        self.statuses.append(status)

    def drop(self, fate: str = "duplicate", message_id: int | None = None) -> None:
        """Records that the node drops a message.

        Args:
            fate: The reason: ``duplicate``, ``lost_crash`` or ``lost_link``.
            message_id: The id of the message; None for the message that the node is handling.

        Raises:
            ValueError: ``fate`` is another string, or the node handles no message and the caller passes no
                ``message_id``.
        """
        if fate not in _DROPPED:
            raise ValueError(f"drop was called with fate {fate!r}; allowed: {', '.join(_DROPPED)}")
        number = self.message_id if message_id is None else message_id
        if number is None:
            raise ValueError("drop was called where no message is handled")
        self.fates.append((number, fate))

    def draw(self, purpose: str, *keys: int) -> float:
        """Returns a pseudorandom number in [0, 1).

        The number is a hash of the run's seed, the node, the round, `purpose` and `keys`.
        """
        what = repr((self._seed, self.node, self.round, purpose, keys)).encode()
        return uniform(int.from_bytes(hashlib.blake2b(what, digest_size=8).digest(), "big"))
