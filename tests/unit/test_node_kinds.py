"""Node programs: kinds of messages and their handlers, inherited fields, timers, what is durable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import pytest

from udfs.nodes.arrow import ProgramColumns
from udfs.nodes.calls import PublishCall
from udfs.nodes.context import Context
from udfs.nodes.local import LocalNetwork
from udfs.nodes.program import NodeProgram, Plan, one, snake
from udfs.nodes.records import message, record, spec_of


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


def test_a_declaration_that_is_called_as_a_column_of_the_harness_is_an_error() -> None:
    class Taken(NodeProgram):
        """Has a name that is taken."""

        timer = one(Seen)

    with pytest.raises(TypeError, match=r"Taken\.timer needs another name"):
        ProgramColumns(Taken)


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
