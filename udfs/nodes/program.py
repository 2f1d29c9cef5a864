"""The base class of node programs: the state of a node, and a handler for each type of event.

A program is a class. Its class attributes declare the state of a node (`keyed`, `ordered`, `one`, `appended`); each of
them becomes a table of the store. Handlers are methods:

=================================  ====================================================================
``on_<kind>(self, m, src, ctx)``   a message; the kind is in snake case (``par_top`` for ``PAR_TOP``, ``Par-Top``)
``on_message(self, m, src, ctx)``  a message of a kind that has no handler of its own
``call_<kind>(self, call, ctx)``   an application call: ``call_publish``, ``call_subscribe``, ...
``on_timer(self, name, key, ctx)`` a timer of `Context.set_timer` has expired
``on_recover(self, ctx)``          the node restarts after a crash, with its durable state only
``on_down(self, peer, ctx)``       the failure detector reports the crash of a watched node
``on_round_end(self, ctx)``        the node has handled an event in this round
=================================  ====================================================================

A program that handles all due events of a round in one step has only the handler ``on_round(self, due, ctx)``, which
gets a `udfs.nodes.world.RoundDue`.

A handler acts through its `Context`, and changes attributes of its own node only. It does not read other nodes or a
clock, and draws random numbers with `Context.draw` only. It iterates over a set, or over a dict inside a record, in
sorted order only, because the store does not keep the insertion order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self, TypeVar

from udfs.nodes.calls import CALLS, PublishCall, SubscribeCall, UnsubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.records import Keyed, key_of, kind_of, message, record, spec_of

R = TypeVar("R")
TIMERS = "timers"
ANY = "*"
"""The name in `NodeProgram.order` for all message kinds that no phase of `order` names."""
_EMPTY: Mapping[str, Callable[[], Any]] = {"keyed": Keyed, "ordered": list, "appended": list}


@dataclass(frozen=True)
class Declared:
    """A state attribute of a program.

    Attributes:
        form: ``keyed``, ``ordered``, ``one`` or ``appended``.
        record: The record class of the attribute's rows.
        is_durable: Whether the rows survive a crash of the node.
    """

    form: str
    record: type
    is_durable: bool

    @property
    def empty(self) -> Callable[[], Any]:
        """The function that creates the initial value of the attribute."""
        return _EMPTY.get(self.form, self.record)

    def rows(self, value: Any) -> Sequence[Any]:  # noqa: ANN401
        """Returns the rows of `value`, a value of the attribute, in stored order."""
        if self.form == "keyed":
            rows: Sequence[Any] = value.values()
            return rows
        return [value] if self.form == "one" else value

    def value(self, rows: Sequence[Any]) -> Any:  # noqa: ANN401
        """Returns the value of the attribute whose stored rows are `rows`. This is the inverse of method `rows`.

        The rows of an ordered attribute must be in stored order.
        """
        if self.form == "keyed":
            key = key_of(self.record)
            return Keyed((key(row), row) for row in rows)
        if self.form == "one":
            return rows[0] if rows else self.record()
        return list(rows)


def keyed(record: type[R], *, is_durable: bool = False) -> dict[Any, R]:
    """Declares a dict that maps keys to records. It iterates in ascending order of the keys.

    A key is the value of the record's key field, or a tuple if the record has several key fields. With `is_durable` the
    records survive a crash of the node.
    """
    return Declared("keyed", record, is_durable)  # type: ignore[return-value]


def ordered(record: type[R], *, is_durable: bool = False) -> list[R]:
    """Declares a list of records, durable with `is_durable`. Column ``position`` of its table is the index, from 0."""
    return Declared("ordered", record, is_durable)  # type: ignore[return-value]


def one(record: type[R], *, is_durable: bool = False) -> R:
    """Declares a single record per node, durable with `is_durable`. All fields of the record need defaults."""
    return Declared("one", record, is_durable)  # type: ignore[return-value]


def appended(record: type[R], *, is_durable: bool = False) -> list[R]:
    """Declares a list to which a node adds records and which it never reads. Each round starts with an empty list.

    The table of the list contains the records of all rounds. Without `is_durable` a crash of the node deletes them.
    """
    return Declared("appended", record, is_durable)  # type: ignore[return-value]


@message("NODE_DOWN")
class NodeDown:
    """The report of a node's failure detector that a watched node has crashed. The node sends the report to itself."""

    peer: Annotated[int, "the node that is down"]


class NodeProgram:
    """The state and the handlers of one node, from its start or restart to its next crash.

    Attributes:
        messages: The classes of all messages that nodes send.
        order: The phases of a round: message kinds, call kinds, `TIMERS`, and `ANY` for all message kinds that no
            phase names. A node handles its due events in the order of phases. Within a phase it handles messages by id
            and calls in order of issue. Events that no phase names come last: first messages, then timers, then calls.
        down_kind: The message kind of failure detector reports in the history.
        detection: The name of the setting with the detection delay in rounds, for programs with a handler `on_down`.
            The latency of the connection is added to the delay.
        down_status: The status of a crashed node in table ``node_status``, or None if a crash records no status.
        holds_calls: Whether the program itself issues its calls, with `Context.issue`. The history shows a due call as
            held until the program issues it.
        notices_links: Whether a node with a handler `on_round` handles `RoundDue.links`: links that end or begin, and
            neighbours that recover. The node handles them during a pause, too.
        read_by_others: The names of durable attributes that other nodes read with `RunView.stored` after the first
            crash of the run. Handlers assign new values to these attributes and never change a value in place.
        caches: The names of attributes that are not state. They are lost at the end of a job, so the node computes them
            again from its state. Attributes whose names begin with an underscore are also caches.
    """

    messages: ClassVar[Sequence[type]] = ()
    order: ClassVar[Sequence[str | tuple[str, ...]]] = (ANY,)
    down_kind: ClassVar[str] = "NODE_DOWN"
    detection: ClassVar[str] = "detection_rounds"
    down_status: ClassVar[str | None] = None
    holds_calls: ClassVar[bool] = False
    notices_links: ClassVar[bool] = False
    read_by_others: ClassVar[Sequence[str]] = ()
    caches: ClassVar[Sequence[str]] = ()
    declared: ClassVar[Mapping[str, Declared]] = {}
    _empty: ClassVar[Sequence[tuple[str, Callable[[], Any]]]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401
        """Collects the declarations of the class and of its base classes."""
        super().__init_subclass__(**kwargs)
        own = {name: given for name, given in vars(cls).items() if isinstance(given, Declared)}
        cls.declared = {**cls.declared, **own}
        cls._empty = [(name, given.empty) for name, given in cls.declared.items()]
        for name, given in own.items():
            spec_of(given.record)
            delattr(cls, name)

    def __init__(self) -> None:
        """Sets each declared attribute to its initial value."""
        self.set({name: empty() for name, empty in self._empty})

    def set(self, values: Mapping[str, Any]) -> None:
        """Sets declared attributes to `values`, by name. `Declared.value` returns values of the right type."""
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401 - of any declaration
        """Sets an attribute. Converts a dict to `Keyed` if the attribute is declared as `keyed`.

        Raises:
            AttributeError: The attribute is neither declared nor a cache, so its value would be lost.
        """
        declared = self.declared.get(name)
        if declared is None:
            self._check_cache(name)
        elif declared.form == "keyed" and not isinstance(value, Keyed):
            value = Keyed(value)
        super().__setattr__(name, value)

    def _check_cache(self, name: str) -> None:
        is_cache = name.startswith("_") or name in self.caches
        if not is_cache and not isinstance(getattr(type(self), name, None), property):
            raise AttributeError(
                f"{type(self).__name__} sets attribute {name!r}, which would be lost at the end of a job; declare it "
                "with keyed, ordered, one or appended, or name it in caches if the node computes it from its state"
            )

    @classmethod
    def start(cls, world: Any) -> None:  # noqa: ANN401 - `World` holds programs, so its module imports this one
        """Sets the state of all nodes of `world` before the first round. The default does nothing."""

    def close(self) -> None:
        """Drops the state of the node at the end of its run.

        A program whose objects form reference cycles breaks the cycles here. Otherwise the objects live until the next
        garbage collection.
        """
        vars(self).clear()

    def on_round(self, due: Any, ctx: Context) -> None:  # noqa: ANN401 - `RoundDue`; its module imports this one
        """Handles `due`, all due events of a round. A program with this handler has no other handlers."""
        raise NotImplementedError

    def is_connected(self, peer: int) -> bool:
        """Returns whether the node notices a crash of `peer`.

        Only programs with a handler `on_round` implement this method.
        """
        return False

    def on_timer(self, name: str, key: int, ctx: Context) -> None:
        """Handles the expiry of timer (`name`, `key`). Required if the program sets timers."""
        raise NotImplementedError(f"{type(self).__name__} sets timer {name!r} and has no handler on_timer")

    def on_down(self, peer: int, ctx: Context) -> None:
        """Handles the report that watched node `peer` has crashed. Required if the program watches nodes."""
        raise NotImplementedError

    def on_recover(self, ctx: Context) -> None:
        """Handles the restart of the node after a crash. The default does nothing."""

    def on_round_end(self, ctx: Context) -> None:
        """Runs after all other handlers of a round in which the node has handled an event. The default does nothing."""


def snake(kind: str) -> str:
    """Returns message kind `kind` in snake case, the form that handler names contain."""
    parts = kind.replace("*", "").split("-")
    starts = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # the starts of words
    return "_".join(one if one.isupper() else starts.sub("_", one) for one in parts).lower()


@dataclass(frozen=True)
class Plan:
    """The declarations and handlers of a program, checked and indexed.

    Attributes:
        program: The program class.
        kinds: The class of each message kind, including failure detector reports.
        handlers: The handler of each message kind, a function of the program. Empty for programs with `on_round`.
        phase: The phase index of each message kind, each call kind, and `TIMERS`.
        volatile: The declarations whose rows a crash deletes.
        durable: The declarations whose rows survive a crash.
        appended: The declarations to which nodes only add rows.
        is_whole: Whether the program handles all due events of a round in one step (`on_round`).
        is_watching: Whether the program handles failure detector reports (`on_down`).
    """

    program: type[NodeProgram]
    kinds: Mapping[str, type]
    handlers: Mapping[str, Callable[..., None]]
    phase: Mapping[str, int]
    volatile: Mapping[str, Declared]
    durable: Mapping[str, Declared]
    appended: Mapping[str, Declared]
    is_whole: bool
    is_watching: bool

    @classmethod
    def of(cls, program: type[NodeProgram]) -> Plan:
        """Returns the plan of `program`.

        Raises:
            TypeError: A message kind has no handler or two classes, or `order` names an unknown kind or one kind twice.
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
            {name: one for name, one in program.declared.items() if name not in read}, is_whole, is_watching,
        )  # fmt: skip

    @cached_property
    def kind_by_class(self) -> Mapping[type, str]:
        """The message kind of each message class."""
        return {cls: kind for kind, cls in self.kinds.items()}


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
    topic: Annotated[str | None, "topic that the predicate requires; null: the predicate requires no topic"]
    issued_round: Annotated[int, "round in which the subscription was issued"]


@message()
class RoutedCopy:
    """A copy of an application's message that nodes forward over the overlay."""

    source: Annotated[int, "the node whose application issued the message"]
    source_seq: Annotated[int, "number of the call among the calls of the source"]
    hops: Annotated[int, "number of links that this copy has traversed from the source to the receiver"]

    def onward(self) -> Self:
        """Returns the copy to send to the next node: this copy with one more hop."""
        return replace(self, hops=self.hops + 1)


@message("PUB", hidden="issued_round,matches")
class PublicationCopy(RoutedCopy):
    """A copy of a publication."""

    issued_round: Annotated[int, "round in which the publication was issued"]
    matches: Annotated[tuple[int, ...], "the subscriptions whose predicate the publication satisfies"]

    @classmethod
    def of(cls, call: PublishCall, node: int) -> Self:
        """Returns the first copy of the publication `call` at `node`, its publisher."""
        return cls(node, call.source_seq, 0, call.round, call.matches)


@record(key="source,source_seq")
class SeenPublication:
    """A publication that a node has received."""

    source: Annotated[int, "the publisher"]
    source_seq: Annotated[int, "number of the publication among the calls of the publisher"]
    round: Annotated[int, "round in which the first copy arrived"]


class SubscribingNode(NodeProgram):
    """A node that stores the subscriptions of its application durably, and delivers matching publications."""

    subscription = keyed(LocalSubscription, is_durable=True)

    def call_subscribe(self, call: SubscribeCall, ctx: Context) -> None:
        """Stores the subscription. Sends no message."""
        number = call.subscription_id
        self.subscription[number] = LocalSubscription(number, call.topic, call.round)

    def call_unsubscribe(self, call: UnsubscribeCall, ctx: Context) -> None:
        """Deletes the subscription. Sends no message."""
        self.subscription.pop(call.subscription_id, None)

    def is_subscribed(self, matches: Iterable[int]) -> bool:
        """Returns whether the node has at least one of the subscriptions `matches`."""
        return any(one in self.subscription for one in matches)

    def deliver(self, m: PublicationCopy, ctx: Context) -> None:
        """Delivers publication `m` to the node's application if one of the node's subscriptions matches."""
        if self.is_subscribed(m.matches):
            ctx.deliver(m.source, m.source_seq, m.issued_round, m.hops)
