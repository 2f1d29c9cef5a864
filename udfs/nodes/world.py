"""What a program may read to set the state of nodes before the first round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from udfs.nodes.calls import Call
from udfs.nodes.context import Context, Internal
from udfs.nodes.program import NodeProgram
from udfs.nodes.run import RunView

BEFORE = -1
"""The round before the first one: in it nodes start, and messages that are on links at the start were sent."""


@dataclass(frozen=True)
class NodeInfo:
    """A node of the overlay.

    Attributes:
        node: Its id.
        name: Its name in the scenario.
        role: What it is.
    """

    node: int
    name: str
    role: str


@dataclass
class Node:
    """A node of a run that is up.

    Attributes:
        program: Its state.
        internal: What the harness keeps of it.
    """

    program: NodeProgram
    internal: Internal = field(default_factory=Internal)


@dataclass
class World:
    """A run before its first round.

    Attributes:
        nodes: The nodes by id.
        links: The latency of each directed link, by its ends.
        calls: All application calls, by node.
        settings: The protocol's settings, and ``seed``.
        has_crashes: Whether a node crashes at some time: what is kept for the case that one does need not be kept
            without.
        predicates: The predicate of each subscription.
        at: The state of each node, to be set.
    """

    nodes: Mapping[int, NodeInfo]
    links: Mapping[tuple[int, int], int]
    calls: Mapping[int, Sequence[Call]]
    settings: Mapping[str, Any]
    has_crashes: bool = False
    predicates: Mapping[int, str] = field(default_factory=dict)
    at: dict[int, Node] = field(default_factory=dict)

    def neighbours(self, node: int) -> dict[int, int]:
        """Returns the latency of each link that leaves a node, by its other end."""
        return self._neighbours.get(node, {})

    def program(self, node: int) -> Any:  # noqa: ANN401 - the author's own class
        """Returns the program of a node."""
        return self.at[node].program

    def context(self, node: int) -> Context:
        """Returns a context of a node before the first round: what is sent through it is in flight at the start."""
        if node not in self._contexts:
            run = RunView(self.links)
            self._contexts[node] = Context(node, BEFORE, self.settings, self.at[node].internal, run)
        return self._contexts[node]

    def __post_init__(self) -> None:
        """Starts without messages."""
        self._contexts: dict[int, Context] = {}
        self._neighbours: dict[int, dict[int, int]] = {}
        for (src, dst), latency in sorted(self.links.items()):
            self._neighbours.setdefault(src, {})[dst] = latency

    @property
    def contexts(self) -> list[Context]:
        """The contexts that were used, by node."""
        return [self._contexts[node] for node in sorted(self._contexts)]


def begin(program: type[NodeProgram], world: World) -> World:
    """Makes the state of all nodes of a run before its first round."""
    world.at = {node: Node(program()) for node in sorted(world.nodes)}
    program.start(world)
    return world
