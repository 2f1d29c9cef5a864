"""Nodes of finished runs leave no reference cycles to the garbage collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from udfs.ginger.program import Ginger
from udfs.nodes.context import Context
from udfs.nodes.local import LocalNetwork
from udfs.nodes.network import Network
from udfs.nodes.program import NodeProgram
from udfs.nodes.world import NodeInfo
from udfs.repository.program import Repository
from udfs.skipring.program import SkipRing


@contextmanager
def without_search() -> Iterator[None]:
    """Has Python free by counting references only."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_the_parts_of_a_node_of_ginger_go_with_it() -> None:
    settings = {"root": None, "max_hops": 1, "timer_rounds": 4, "total_degree": 9, "detection_rounds": 2}
    nodes = [NodeInfo(0, "B0", "broker"), NodeInfo(1, "C0", "client")]
    network = LocalNetwork(Ginger, nodes=nodes, links={(0, 1): 1}, settings=settings)
    network.call(1, "subscribe", 1, topic="news", subscription_id=0)
    network.play(9)
    roles = [weakref.ref(vars(program)["_role"].node) for program in network.up.values()]
    running: Network = network._running()
    with without_search():
        running.close()
        assert [role() for role in roles] == [None, None]


class Plain(NodeProgram):
    """Has nothing but its tables."""

    def call_publish(self, call: Any, ctx: Context) -> None:
        """Does nothing."""


@pytest.mark.parametrize("program", [Plain, Ginger, SkipRing, Repository])
def test_a_closed_node_holds_nothing(program: type[NodeProgram]) -> None:
    node = program()
    node.close()
    assert vars(node) == {}
