"""Node programs: kinds of messages and their handlers, inherited fields, timers, what is durable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from udfs.nodes.context import Context
from udfs.nodes.local import LocalNetwork
from udfs.nodes.program import Call, NodeProgram, Plan, one, snake
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

    def call_publish(self, call: Call, ctx: Context) -> None:
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
