"""Node programs: kinds of messages and their handlers, inherited fields, timers, what is durable."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pytest

from udfs.nodes.arrow import ProgramColumns, record_columns, rows_of
from udfs.nodes.block import BlockRun, _next_batch, block_schema
from udfs.nodes.calls import PublishCall
from udfs.nodes.context import Context, Internal
from udfs.nodes.local import LocalNetwork
from udfs.nodes.network import Network, RunInput
from udfs.nodes.program import NodeProgram, Plan, keyed, one, snake
from udfs.nodes.records import Keyed, message, record, spec_of
from udfs.nodes.run import NodeIntervals
from udfs.nodes.world import NodeInfo, ProgramError, RunningNode


@dataclass(frozen=True, slots=True)
class Addressed:
    """What all messages have.

    Attributes:
        to: Who is to get it.
    """

    to: int


@message("P2R-Order")
class Order(Addressed):
    """An order.

    Attributes:
        n: Its number.
    """

    n: int


@message("R2S*-Persistent")
class Persistent(Addressed):
    """A notification."""


@record()
class Seen:
    """What has come.

    Attributes:
        kinds: The kinds.
    """

    kinds: str = ""


class Both(NodeProgram):
    """Has a handler for one kind, and one for all others."""

    messages = (Order, Persistent)
    seen = one(Seen, is_durable=True)
    volatile = one(Seen)

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        ctx.send(1, Order(1, 5))
        ctx.send(1, Persistent(1))
        ctx.set_timer("again", 3, rounds=2)
        assert ctx.is_set("again", 3)
        assert not ctx.is_set("again")

    def on_timer(self, name: str, key: int, ctx: Context) -> None:
        self.volatile.kinds += name

    def on_p2r_order(self, m: Order, src: int, ctx: Context) -> None:
        self.seen.kinds += f"order {m.n} "

    def on_message(self, m: Any, src: int, ctx: Context) -> None:
        self.seen.kinds += type(m).__name__


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("P2R-Order", "p2r_order"), ("R2S*-Persistent", "r2s_persistent"), ("Gossip-ACK", "gossip_ack"),
        ("PAR_TOP", "par_top"), ("ParentTop", "parent_top"),
    ],
)  # fmt: skip
def test_kinds_in_names_of_handlers(kind: str, name: str) -> None:
    assert snake(kind) == name


def test_fields_are_inherited_with_their_comments() -> None:
    assert spec_of(Order).comments == {"to": "Who is to get it", "n": "Its number"}


def test_a_comment_stands_in_the_annotation_or_in_the_docstring() -> None:
    @record(key="peer")
    class Mixed:
        """A row.

        Attributes:
            n: How many.
        """

        peer: Annotated[int | None, "the neighbour"]
        n: int

    @record()
    class Twice:
        """A row.

        Attributes:
            n: How many.
        """

        n: Annotated[int, "how many"] = 0

    @record()
    class Without:
        """A row."""

        n: int = 0

    spec = spec_of(Mixed)
    assert spec.comments == {"peer": "the neighbour", "n": "How many"}
    assert [str(kind.arrow) for kind in spec.types.values()] == ["int64", "int64"]
    with pytest.raises(TypeError, match=r"Twice\.n has two comments"):
        spec_of(Twice)
    with pytest.raises(TypeError, match=r"Without\.n has no comment; write Annotated"):
        spec_of(Without)


def test_one_handler_for_all_other_kinds() -> None:
    network = LocalNetwork(Both, links={(0, 1): 1})
    network.call(0, "publish", 1)
    network.crash(1, 4)
    network.play(3)
    assert 1 in network.up
    assert network.node(0).volatile.kinds == "again"
    network.play(5)
    assert 1 not in network.up
    assert network.durable(1) == {"seen": Seen("order 5 Persistent")}


def test_a_kind_without_a_handler_is_an_error() -> None:
    class Neither(NodeProgram):
        """Has no handlers."""

        messages = (Order,)

    with pytest.raises(TypeError, match="no handler on_p2r_order"):
        Plan.of(Neither)


@pytest.mark.parametrize("name", ["run_id", "node_id", "timer", "counted", "last_played", "in_flight", "events"])
def test_a_declaration_that_is_called_as_a_column_of_the_harness_is_an_error(name: str) -> None:
    Taken = type("Taken", (NodeProgram,), {name: one(Seen)})  # noqa: N806 - a class
    with pytest.raises(TypeError, match=rf"Taken\.{name} needs another name"):
        ProgramColumns(Taken)


def test_a_declaration_may_have_any_other_name() -> None:
    Free = type("Free", (NodeProgram,), {name: one(Seen) for name in ("round", "links", "sent")})  # noqa: N806 - a class
    names = block_schema(ProgramColumns(Free)).names
    assert len({*names}) == len(names)


def test_a_field_that_is_called_as_a_column_of_all_tables_is_an_error() -> None:
    @record(key="node_id")
    class Peer:
        """A peer."""

        node_id: Annotated[int, "id of the peer"]

    class Peers(NodeProgram):
        """Knows peers."""

        peers = keyed(Peer)

    with pytest.raises(TypeError, match=r"Peer\.node_id needs another name; taken in table peers: run_id, node_id"):
        ProgramColumns(Peers)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ((2, Order(1, 5)), "sends P2R-Order to node 2, to which it has no link; allowed: a neighbour, or any node"),
        (("B", Order(1, 5)), "sends P2R-Order to node 'B', to which it has no link"),
        ((7, Order(1, 5), 3), "sends P2R-Order to node 7, which does not exist"),
        ((1, "hello"), r"sends 'hello'; allowed: a message of P2R-Order, R2S\*-Persistent"),
        ((1, Seen()), r"sends Seen\(kinds=''\); allowed: a message of"),
        ((1, Order(1, 5), 1.5), r"after=1\.5; allowed: 1 or more whole rounds"),
        ((1, Order(1, 5), 0), "after=0; allowed: 1 or more whole rounds"),
        ((), "SystemExit: 3"),
        ((None,), "MemoryError$"),
    ],
)
def test_what_a_program_may_not_send_is_told(sent: tuple[Any, ...], told: str) -> None:
    """An exception without a message is told by its class."""

    class Sending(NodeProgram):
        """Sends a wrong message."""

        messages = (Order, Persistent)

        def call_publish(self, call: PublishCall, ctx: Context) -> None:
            if not sent:
                sys.exit(3)
            if sent == (None,):
                raise MemoryError
            ctx.send(*sent)

        def on_message(self, m: Any, src: int, ctx: Context) -> None:
            """Receives any message."""

    network = LocalNetwork(Sending, links={(0, 1): 1, (1, 2): 1})
    network.call(0, "publish", 4)
    with pytest.raises(ProgramError, match=f"^run 0, node 0, round 4.*{told}"):
        network.play(9)


def played(program: type[NodeProgram]) -> None:
    """Executes rounds 0 to 9 of run 7 as a block. Two of three connected nodes publish in round 4."""
    links = {(src, dst): 1 for src in range(3) for dst in range(3) if src != dst}
    calls = {4: {node: [PublishCall(1, 4)] for node in (0, 2)}}
    given = RunInput(7, {"seed": 0}, links, calls, NodeIntervals(()), NodeIntervals(()))
    rows = rows_of(program)
    network = Network.begun(rows.plan, given, {node: NodeInfo(node, "N", "broker") for node in range(3)}, {})
    assert _next_batch(rows, iter([BlockRun(7, *network, 9, None)])) is not None


@pytest.mark.parametrize("raised", [KeyboardInterrupt, GeneratorExit, type("Own", (BaseException,), {})])
def test_a_handler_that_raises_no_exception_of_programs_is_named(raised: type[BaseException]) -> None:
    """A block gets no signals, so the exception comes from the handler. In a test, Ctrl-C ends the test."""

    class Raising(Both):
        """Raises in its second round."""

        def on_p2r_order(self, m: Order, src: int, ctx: Context) -> None:
            raise raised("planted")

    where = r"run \d, node 1, round 5, message P2R-Order \d+ from node \d"
    with pytest.raises(ProgramError, match=f"^{where}: {raised.__name__}: planted$"):
        played(Raising)
    network = LocalNetwork(Raising, links={(0, 1): 1})
    network.call(0, "publish", 4)
    with pytest.raises(raised) as found:
        network.play(9)
    assert re.search(where, found.value.__notes__[0])


class Counting(Both):
    """Sets an attribute in each round; class attribute ``asked`` names the attribute."""

    caches = ("n_cached",)
    asked: ClassVar = "n"
    n_of_class = 0

    @property
    def half(self) -> int:
        return self._twice // 2

    @half.setter
    def half(self, value: int) -> None:
        self._twice = 2 * value

    def on_round_end(self, ctx: Context) -> None:
        setattr(self, self.asked, 1)


@pytest.mark.parametrize("name", ["n", "n_of_class", "on_message"])
def test_an_attribute_that_a_job_would_lose_is_refused(name: str) -> None:
    """A node keeps such an attribute up to the next commit only, so rows would depend on the rounds between commits."""
    told = f"Counting sets attribute '{name}', which would be lost at the end of a job; declare it with keyed, ordered"
    with pytest.raises(ProgramError, match=f"^run 7, node [02], round 4.*AttributeError: {told}"):
        played(type("Counting", (Counting,), {"asked": name, "__doc__": Counting.__doc__}))


@pytest.mark.parametrize("name", ["_n", "n_cached", "half"])
def test_a_node_sets_caches_and_properties(name: str) -> None:
    played(type("Counting", (Counting,), {"asked": name, "__doc__": Counting.__doc__}))


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (lambda program, ctx: ctx.send(0, Order(0, "a")), "Order.n is 'a'; allowed: bigint"),
        (lambda program, ctx: ctx.send(0, Order(0, 2**63)), f"Order.n is {2**63}; allowed: bigint"),
        (lambda program, ctx: ctx.send(0, Order(0, -(2**63) - 1)), f"Order.n is {-(2**63) - 1}; allowed: bigint"),
        (lambda program, ctx: ctx.status(5), "a value of status is not of type string"),
        (lambda program, ctx: ctx.confirm("a"), "a value of source_seq is not of type bigint"),
        (lambda program, ctx: ctx.deliver(0, "a", 4, 1), "a value of source_seq is not of type bigint"),
        (lambda program, ctx: setattr(program.seen, "kinds", 5), "Seen.kinds is 5; allowed: string"),
        (lambda program, ctx: ctx.set_timer(4, rounds=90), "Timer.name is 4; allowed: string"),
    ],
)
def test_the_node_whose_rows_cannot_be_stored_is_named(action: Callable[[Any, Context], None], told: str) -> None:
    class Wrong(Both):
        """Node 1 does something that cannot be stored."""

        def on_round_end(self, ctx: Context) -> None:
            if ctx.node == 1 and ctx.round == 5:
                action(self, ctx)

    with pytest.raises(ProgramError, match=rf"^run 7, node 1, up to round \d: {re.escape(told)}"):
        played(Wrong)


def test_a_long_value_is_shortened_in_the_message_of_an_error() -> None:
    class Long(Both):
        """Raises an exception with a long message."""

        def on_p2r_order(self, m: Order, src: int, ctx: Context) -> None:
            raise ValueError("x" * 50_000)

    with pytest.raises(ProgramError, match=r"^run 7, node 1, .*: ValueError: x+\.\.\.$") as found:
        played(Long)
    assert len(str(found.value)) < 1_100


def test_a_message_is_dropped_with_a_known_fate_only() -> None:
    class Dropping(Both):
        """Drops messages with an unknown fate."""

        def on_p2r_order(self, m: Order, src: int, ctx: Context) -> None:
            ctx.drop("lost")

    told = "drop was called with fate 'lost'; allowed: duplicate, lost_crash, lost_link"
    with pytest.raises(ProgramError, match=f"ValueError: {told}$"):
        played(Dropping)


@pytest.mark.parametrize("row", ["Seen", Order(1, 5), None])
def test_a_row_that_is_no_record_of_its_table_is_told(row: Any) -> None:
    with pytest.raises(ProgramError, match=r"the program keeps .*; allowed: Seen$"):
        record_columns(Both.declared["seen"], [Seen("a"), row])


@record(key="n")
class Entry:
    """An entry.

    Attributes:
        n: Its number.
    """

    n: int


class Filing(NodeProgram):
    """Has entries by number."""

    messages = (Persistent,)
    entries = keyed(Entry)

    def on_message(self, m: Any, src: int, ctx: Context) -> None:
        """Receives any message."""


def test_a_record_under_another_key_than_its_own_is_told() -> None:
    """The next block of rounds would find it under its own key, so rows would depend on the length of a block."""
    node = RunningNode(Filing())
    node.program.entries = {2: Entry(2), 1: Entry(1)}  # type: ignore[attr-defined]
    assert ProgramColumns(Filing).rows("entries", node) == [Entry(1), Entry(2)]
    node.program.entries[5] = Entry(4)  # type: ignore[attr-defined]
    with pytest.raises(ProgramError, match=r"keeps Entry\(n=4\) under the key 5; allowed: its key 4$"):
        ProgramColumns(Filing).rows("entries", node)


def test_a_delay_may_be_a_number_of_numpy() -> None:
    ctx = Context(0, 1, {}, Internal())
    ctx.send(1, Persistent(1), after=np.int64(2))
    assert [(latency, type(latency)) for _, _, latency in ctx.sent] == [(2, int)]
    ctx.set_timer("again", rounds=np.int64(2))
    assert [(at, type(at)) for at in ctx._internal.timers.values()] == [(3, int)]


@pytest.mark.parametrize("rounds", [1.5, 0, -1, "2", None])
def test_a_timer_expires_after_whole_rounds(rounds: Any) -> None:
    with pytest.raises(ValueError, match=r"timer 'again' is set with rounds=.*; allowed: 1 or more whole rounds"):
        Context(0, 1, {}, Internal()).set_timer("again", rounds=rounds)


class Watching(NodeProgram):
    """Watches node 1."""

    seen = keyed(Seen)

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        """Starts the watch."""
        ctx.watch(1)

    def on_down(self, peer: int, ctx: Context) -> None:
        """Records the report."""
        ctx.status(f"{peer} is down")


@pytest.mark.parametrize("call_round", [2, 7])
def test_a_report_without_a_delay_arrives_in_the_next_round(call_round: int) -> None:
    network = LocalNetwork(Watching, links={(0, 1): 1}, settings={"detection_rounds": 0})
    network.call(0, "publish", call_round)
    network.crash(1, 5)
    network.play(20)
    assert network.rows.statuses == [(0, max(5, call_round) + 1, "1 is down")]


def test_a_failure_detector_needs_its_delay() -> None:
    network = LocalNetwork(Watching, links={(0, 1): 1})
    network.call(0, "publish", 2)
    network.crash(1, 5)
    with pytest.raises(ProgramError, match="node 0, round 5: the failure detector needs setting 'detection_rounds'"):
        network.play(20)


class Place(NamedTuple):
    """Where something is."""

    node: int
    names: tuple[str, ...]


@record()
class Named:
    """Places.

    Attributes:
        places: By number.
        last: The last one; null: none.
    """

    places: dict[int, Place] = field(default_factory=dict)
    last: Place | None = None


def test_named_tuples_are_kept_as_structs() -> None:
    kinds = spec_of(Named).types
    assert kinds["last"].sql == "struct<node:bigint,names:array<string>>"
    places = {2: Place(7, ("a", "b")), 1: Place(8, ())}
    encode, decode = kinds["places"].encode, kinds["places"].decode
    assert encode is not None
    assert decode is not None
    kept = encode(places)
    assert kept == [
        {"key": 1, "value": {"node": 8, "names": ()}}, {"key": 2, "value": {"node": 7, "names": ("a", "b")}},
    ]  # fmt: skip
    assert decode(kept) == places


def test_rows_that_are_merged_are_in_the_order_of_their_keys() -> None:
    rows: Keyed[int, str] = Keyed({5: "e"})
    rows |= {2: "b", 9: "i", 4: "d"}
    assert [*reversed(rows)] == [9, 5, 4, 2]
    assert rows.items() == [(2, "b"), (4, "d"), (5, "e"), (9, "i")]
    rows |= {1: "a"}
    assert [*rows] == [1, 2, 4, 5, 9]
    assert rows.popitem() == (9, "i")
    assert [*rows] == [1, 2, 4, 5]
    rows.clear()
    with pytest.raises(KeyError):
        rows.popitem()
