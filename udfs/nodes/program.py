"""The base class of node programs: the state of a node, and a handler for each kind of event.

A program is a class. Its attributes declare the state of a node (`keyed`, `ordered`, `one`, `appended`), each a table
of the store. Handlers are methods:

=================================  ====================================================================
``on_<kind>(self, m, src, ctx)``   a message; the kind in snake case (``PAR_TOP``, ``Par-Top``: ``par_top``)
``on_message(self, m, src, ctx)``  a message of a kind that has no handler of its own
``call_<kind>(self, call, ctx)``   an application call: ``call_publish``, ``call_subscribe``, ...
``on_timer(self, name, key, ctx)`` a timer of `Context.set_timer` has expired
``on_recover(self, ctx)``          the node is up again after a crash, with its durable state only
``on_down(self, peer, ctx)``       the failure detector reports a node that this one watches
``on_round_end(self, ctx)``        the node has handled something in this round
=================================  ====================================================================

A program whose algorithm handles all due events of a round at once has one handler instead,
``on_round(self, due, ctx)``, which gets a `udfs.nodes.world.RoundDue`.

A handler acts through its `Context` and changes attributes of its own node, nothing else: it sees no other node, no
clock, and no draws but `Context.draw`. It iterates over a set, or over a dict in a record, in sorted order only: a
stored node loses their insertion order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from udfs.nodes.calls import CALLS, PublishCall, SubscribeCall, UnsubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.records import Keyed, key_of, kind_of, message, record, spec_of

if TYPE_CHECKING:
    from udfs.nodes.context import Context


R = TypeVar("R")
TIMERS = "timers"
ANY = "*"
"""In `NodeProgram.order`: every kind of message that stands in no other phase."""


_EMPTY: Mapping[str, Callable[[], Any]] = {"keyed": Keyed, "ordered": list, "appended": list}


@dataclass(frozen=True)
class Declared:
    """An attribute of a program that nodes keep between rounds.

    Attributes:
        form: ``keyed``, ``ordered``, ``one`` or ``appended``.
        record: The class of its rows.
        is_durable: Whether it survives a crash of its node.
    """

    form: str
    record: type
    is_durable: bool

    @property
    def empty(self) -> Callable[[], Any]:
        """The factory of its initial value."""
        return _EMPTY.get(self.form, self.record)

    def rows(self, value: Any) -> Sequence[Any]:  # noqa: ANN401
        """Returns a value as rows, in the order in which they are kept."""
        if self.form == "keyed":
            rows: Sequence[Any] = value.values()
            return rows
        return [value] if self.form == "one" else value

    def value(self, rows: Sequence[Any]) -> Any:  # noqa: ANN401
        """Returns the value that rows stand for, which are in the order in which `rows` returns them."""
        if self.form == "keyed":
            key = key_of(self.record)
            return Keyed.in_order((key(row), row) for row in rows)
        if self.form == "one":
            return rows[0] if rows else self.record()
        return list(rows)


def keyed(record: type[R], *, is_durable: bool = False) -> dict[Any, R]:
    """Declares rows by their key: a dict from the key (a tuple, if it has several fields) to the record.

    It is gone through in the order of keys.
    """
    return Declared("keyed", record, is_durable)  # type: ignore[return-value]


def ordered(record: type[R], *, is_durable: bool = False) -> list[R]:
    """Declares rows in an order: a list. The table has them with their ``position``, from 0."""
    return Declared("ordered", record, is_durable)  # type: ignore[return-value]


def one(record: type[R], *, is_durable: bool = False) -> R:
    """Declares one row a node; all fields of the record have defaults."""
    return Declared("one", record, is_durable)  # type: ignore[return-value]


def appended(record: type[R], *, is_durable: bool = False) -> list[R]:
    """Declares rows that a node only adds and never reads: a list that is empty again in the next round."""
    return Declared("appended", record, is_durable)  # type: ignore[return-value]


@message("NODE_DOWN")
class NodeDown:
    """A report of a node's own failure detector.

    Attributes:
        peer: The node that is down.
    """

    peer: int


class NodeProgram:
    """A node of a protocol, in one incarnation.

    Attributes:
        name: The protocol, for errors; by default the name of the class in snake case.
        messages: The classes of all messages that nodes send.
        order: The phases of a round: kinds of messages, kinds of calls, `TIMERS`, `ANY`. A node handles due
            events in the order of phases, messages of a phase in the order of their ids, calls in the order of their
            issue. Events without a phase come in the order: messages, timers, calls.
        down_kind: The kind that reports of the failure detector have in the history.
        detection: The setting with the rounds until a crash is reported, beside the latency of the connection,
            for programs with a handler `on_down`.
        down_status: The status of a crashed node, for table ``node_status``; None: no status.
        holds_calls: Whether a call is issued when the program says so (`Context.issue`), not when it is due. Until
            then the history has it as accepted in the round in which it is due.
        notices_links: Whether a node handles changes of its links (`RoundDue.links`), for programs with a handler
            `on_round`: links that end or begin, and neighbours that recover; also while it pauses.
        read_by_others: Durable declarations that other nodes may read (`RunView.stored`) once a node of the run has
            crashed. Their values are replaced, never changed.
    """

    name: ClassVar[str] = ""
    messages: ClassVar[Sequence[type]] = ()
    order: ClassVar[Sequence[str | tuple[str, ...]]] = (ANY,)
    down_kind: ClassVar[str] = "NODE_DOWN"
    detection: ClassVar[str] = "detection_rounds"
    down_status: ClassVar[str | None] = None
    holds_calls: ClassVar[bool] = False
    notices_links: ClassVar[bool] = False
    read_by_others: ClassVar[Sequence[str]] = ()
    declared: ClassVar[Mapping[str, Declared]] = {}
    _empty: ClassVar[Sequence[tuple[str, Callable[[], Any]]]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401
        """Collects the declarations."""
        super().__init_subclass__(**kwargs)
        cls.name = vars(cls).get("name", snake(cls.__name__))
        own = {name: given for name, given in vars(cls).items() if isinstance(given, Declared)}
        cls.declared = {**cls.declared, **own}
        cls._empty = [(name, given.empty) for name, given in cls.declared.items()]
        for name, given in own.items():
            spec_of(given.record)
            delattr(cls, name)

    def __init__(self) -> None:
        """Starts with nothing."""
        self.set({name: empty() for name, empty in self._empty})

    def set(self, values: Mapping[str, Any]) -> None:
        """Sets declared attributes to values as `Declared` makes them."""
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401 - of any declaration
        """Sets an attribute; rows by key are iterated in the order of keys, for any input dict."""
        declared = self.declared.get(name)
        if declared is not None and declared.form == "keyed" and not isinstance(value, Keyed):
            value = Keyed(value)
        super().__setattr__(name, value)

    @classmethod
    def start(cls, world: Any) -> None:  # noqa: ANN401 - `World` holds programs, so its module imports this one
        """Sets the state of nodes before the first round; by default nothing.

        Args:
            world: A `World`: the run's nodes, links and calls, and the program of each node.
        """

    def close(self) -> None:
        """Drops the state of the node at the end of its run.

        Reference cycles would keep their objects until Python collects garbage; a program with reference cycles breaks
        them here.
        """
        vars(self).clear()

    def on_round(self, due: Any, ctx: Context) -> None:  # noqa: ANN401 - `RoundDue`; its module imports this one
        """Handles all due events of a round; a program with this handler has no others."""
        raise NotImplementedError

    def is_connected(self, peer: int) -> bool:
        """Returns whether the node notices the crash of another one, for programs with a handler `on_round`."""
        return False

    def on_timer(self, name: str, key: int, ctx: Context) -> None:
        """Handles a timer that has run out; a program that sets timers has this handler."""
        raise NotImplementedError(f"{type(self).__name__} sets timer {name!r} and has no handler on_timer")

    def on_down(self, peer: int, ctx: Context) -> None:
        """Handles a report of the failure detector; a program that watches nodes has this handler."""
        raise NotImplementedError

    def on_recover(self, ctx: Context) -> None:
        """Handles that the node is up again; by default it does nothing."""

    def on_round_end(self, ctx: Context) -> None:
        """Ends a round in which the node has handled something; by default it does nothing."""


def snake(kind: str) -> str:
    """Returns a kind of message as it stands in the name of its handler."""
    return "_".join(_snake(part) for part in kind.replace("*", "").split("-"))


def _snake(kind: str) -> str:
    if kind.upper() == kind:
        return kind.lower()
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()


@dataclass(frozen=True)
class Plan:
    """How a program is played.

    Attributes:
        program: The class.
        kinds: The class of each kind of message, that of the failure detector's reports among them.
        handlers: The handler of each kind of message of the program's own, a function of the program.
        phase: The place in a round of each kind of message and call, and of `TIMERS`.
        volatile: The declarations whose rows go with their node.
        durable: Those whose rows survive a crash and are read again.
        appended: Those whose rows nodes only add.
    """

    program: type[NodeProgram]
    kinds: Mapping[str, type]
    handlers: Mapping[str, Callable[..., None]]
    phase: Mapping[str, int]
    volatile: Mapping[str, Declared]
    durable: Mapping[str, Declared]
    appended: Mapping[str, Declared]

    @cached_property
    def is_whole(self) -> bool:
        """Whether it handles all that is due in a round at once."""
        return self.program.on_round is not NodeProgram.on_round

    @cached_property
    def is_watching(self) -> bool:
        """Whether its nodes handle reports of failure detectors."""
        return self.program.on_down is not NodeProgram.on_down

    @classmethod
    def of(cls, program: type[NodeProgram]) -> Plan:
        """Reads a program.

        Raises:
            TypeError: A kind of message has no handler or two classes, or stands in two phases.
        """
        own = {kind_of(one): one for one in program.messages}
        if len(own) < len(program.messages):
            kinds_ = ", ".join(kind_of(one) for one in program.messages)
            raise TypeError(f"{program.__name__}.messages has kinds {kinds_}; allowed: each kind once")
        is_whole = program.on_round is not NodeProgram.on_round
        is_watching = program.on_down is not NodeProgram.on_down
        kinds = {**own, program.down_kind: NodeDown} if is_watching else own
        read = {name: one for name, one in program.declared.items() if one.form != "appended"}
        return cls(
            program, kinds, {} if is_whole else {kind: _handler(program, kind, one) for kind, one in own.items()},
            _phases(program, list(kinds)),
            {name: one for name, one in read.items() if not one.is_durable},
            {name: one for name, one in read.items() if one.is_durable},
            {name: one for name, one in program.declared.items() if name not in read},
        )  # fmt: skip

    @cached_property
    def kind_by_class(self) -> Mapping[type, str]:
        """The kind of each class of messages."""
        return {cls: kind for kind, cls in self.kinds.items()}

    def kind(self, message: Any) -> str:  # noqa: ANN401 - any message class
        """Returns the kind of a message."""
        return self.kind_by_class.get(type(message)) or kind_of(type(message))


def _handler(program: type[NodeProgram], kind: str, message: type) -> Callable[..., None]:
    spec_of(message)
    name = f"on_{snake(kind)}"
    handler: Callable[..., None] | None = getattr(program, name, None) or getattr(program, "on_message", None)
    if handler is None:
        raise TypeError(f"{program.__name__} has no handler {name} for its message {kind}")
    return handler


def _phases(program: type[NodeProgram], kinds: Sequence[str]) -> dict[str, int]:
    named: dict[str, int] = {}
    rest = len(program.order)
    for place, phase in enumerate(program.order):
        for kind in (phase,) if isinstance(phase, str) else phase:
            if kind == ANY:
                rest = place
            elif kind in named or kind not in {*kinds, *CALLS, TIMERS}:
                allowed = ", ".join([*kinds, *CALLS, TIMERS, ANY])
                raise TypeError(f"{program.__name__}.order names {kind!r} twice or wrongly; allowed, once: {allowed}")
            else:
                named[kind] = place
    last = len(program.order)
    others = {**dict.fromkeys(kinds, rest), TIMERS: last + 1, **dict.fromkeys(CALLS, last + 2)}
    return {**others, **named}


@record(key="subscription_id")
class LocalSubscription:
    """A subscription of the node's own application."""

    subscription_id: Annotated[int, "the subscription"]
    topic: Annotated[str | None, "topic that it asks for; null: its predicate names none"]
    issued_round: Annotated[int, "round in which it was issued"]


@message()
class RoutedCopy:
    """A copy of a message of a node's application that travels over the overlay."""

    source: Annotated[int, "the node whose application issued it"]
    source_seq: Annotated[int, "its number among the calls there"]
    hops: Annotated[int, "links from the source to the receiver, on the way of this copy"]

    def onward(self) -> Self:
        """Returns the copy that the receiver of this one sends."""
        return replace(self, hops=self.hops + 1)


@message("PUB", hidden="issued_round,matches")
class PublicationCopy(RoutedCopy):
    """A copy of a publication."""

    issued_round: Annotated[int, "round in which it was issued"]
    matches: Annotated[tuple[int, ...], "the subscriptions whose predicate it satisfies"]

    @classmethod
    def of(cls, call: PublishCall, node: int) -> Self:
        """Returns the publication of a call at its publisher."""
        return cls(node, call.source_seq, 0, call.round, call.matches)


@record(key="source,source_seq")
class SeenPublication:
    """A publication that a node has had."""

    source: Annotated[int, "its publisher"]
    source_seq: Annotated[int, "its number among the calls there"]
    round: Annotated[int, "round of its first copy"]


class SubscribingNode(NodeProgram):
    """A node that stores the subscriptions of its own application on disk, and delivers matching publications."""

    subscription = keyed(LocalSubscription, is_durable=True)

    def call_subscribe(self, call: SubscribeCall, ctx: Context) -> None:
        """Subscribes; no other node is told."""
        number = call.subscription_id
        self.subscription[number] = LocalSubscription(number, call.topic, call.round)

    def call_unsubscribe(self, call: UnsubscribeCall, ctx: Context) -> None:
        """Ends a subscription."""
        self.subscription.pop(call.subscription_id, None)

    def is_subscribed(self, matches: Iterable[int]) -> bool:
        """Returns whether one of the subscriptions ``matches`` is the node's own."""
        return any(one in self.subscription for one in matches)

    def deliver(self, m: PublicationCopy, ctx: Context) -> None:
        """Delivers a publication if the node's application asks for it."""
        if self.is_subscribed(m.matches):
            ctx.deliver(m.source, m.source_seq, m.issued_round, m.hops)
