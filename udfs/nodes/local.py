"""A network of node programs without an engine, for tests and searches over thousands of fault schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from udfs.nodes.calls import CALLS, Call, SubscribeCall
from udfs.nodes.network import HistoryRows, Network, RunInput, Strike
from udfs.nodes.processes import rare_collections
from udfs.nodes.program import NodeProgram, Plan
from udfs.nodes.run import LinkReplacement, NodeInterval, NodeIntervals
from udfs.nodes.world import Flight, NodeInfo


class LocalNetwork:
    """One run of a program, executed round by round.

    Schedule events first (`call`, `crash`, `pause`, `replace`). The run starts with the first call of `play`, or with
    the first access to its nodes. In a started run, the methods `call`, `crash`, `pause` and `replace` raise a
    ValueError.

    Example:
        >>> network = LocalNetwork(Flooding, links={(0, 1): 1, (1, 2): 3}, settings={"seed": 7})
        >>> network.call(0, "publish", round_=2, topic="news")
        >>> network.crash(1, round_=3, end_round=9)
        >>> rows = network.play(50)
    """

    def __init__(
        self, program: type[NodeProgram], *, nodes: Sequence[NodeInfo] = (),
        links: Mapping[tuple[int, int], int] | None = None, settings: Mapping[str, Any] | None = None,
        strike: Strike | None = None,
    ) -> None:  # fmt: skip
        """Sets the input of the run.

        Args:
            program: The program.
            nodes: The nodes; by default the nodes that `links` names, as brokers whose names are their ids.
            links: The latency of each link, by the ids of its two ends. A link has both directions.
            settings: The settings of the protocol, and ``seed``.
            strike: The function that applies link faults to the messages of a round. It is ``None`` if the run has no
                link faults.
        """
        both = {**{(b, a): latency for (a, b), latency in (links or {}).items()}, **(links or {})}
        known = nodes or [NodeInfo(one, str(one), "broker") for one in sorted({end for ends in both for end in ends})]
        self._plan = Plan.of(program)
        self._links = both
        self._nodes = {one.node: one for one in known}
        self._settings = {"seed": 0, **(settings or {})}
        self._strike = strike
        self._calls: dict[int, list[Call]] = {}
        self._down: list[NodeInterval] = []
        self._paused: list[NodeInterval] = []
        self._replaced: list[LinkReplacement] = []
        self._subscribers: dict[int, int] = {}
        self._predicates: dict[int, str] = {}
        self._by_topic: list[tuple[int, int]] = []
        self._network: Network | None = None
        self.rows = HistoryRows()

    def call(
        self, node: int, kind: str, round_: int, *, predicate: str | None = None,
        **of_call: Any,  # noqa: ANN401 - fields of `Call`
    ) -> Call:  # fmt: skip
        """Schedules an application call and returns it. The call gets the next number of the node's calls.

        Args:
            node: The calling node.
            kind: The kind of the call.
            round_: The round in which the call is due.
            predicate: The predicate of a subscription. None stands for ``topic = T``, where T is the call's topic.
            of_call: Fields of the call's class (`udfs.nodes.calls`). By default a subscription has the next
                subscription id, and a publication matches the subscriptions to its topic.
        """
        self._check_is_ahead(f"call {kind}", node)
        if kind == "subscribe":
            of_call.setdefault("subscription_id", max(self._predicates, default=-1) + 1)
        calls = self._calls.setdefault(node, [])
        call = CALLS[kind](len(calls) + 1, round_, **of_call)
        calls.append(call)
        if kind == "publish" and "matches" not in of_call:
            self._by_topic.append((node, call.source_seq))
        if isinstance(call, SubscribeCall):
            self._subscribers[call.subscription_id] = node
            self._predicates[call.subscription_id] = predicate or f"topic = {call.topic}"
        return call

    def crash(self, node: int, round_: int, end_round: int | None = None) -> None:
        """Schedules a crash of `node` in `round_`. It recovers in `end_round`; with ``None`` it never recovers."""
        self._check_is_ahead("a crash", node)
        self._down.append(NodeInterval(node, round_, end_round))

    def pause(self, node: int, round_: int, end_round: int) -> None:
        """Schedules a pause of `node`, which handles no messages from `round_` to the round before `end_round`."""
        self._check_is_ahead("a pause", node)
        self._paused.append(NodeInterval(node, round_, end_round))

    def replace(self, old: tuple[int, int], new: tuple[int, int], round_: int, latency_rounds: int = 1) -> None:
        """Schedules the replacement of link `old` by link `new` in `round_`, in both directions of the links."""
        self._check_is_ahead("a replaced link", old[0])
        self._replaced.append(LinkReplacement(round_, *old, *new, latency_rounds))

    def play(self, last: int) -> HistoryRows:
        """Executes all rounds up to and including `last`. Returns their history rows, and adds them to `rows`."""
        with rare_collections():
            rows = HistoryRows()
            self._running().play(last, rows)
            rows.handled = [one if one.fate else one._replace(fate="delivered") for one in rows.handled]
        for name in ("handled", "delivered", "statuses", "calls"):
            getattr(self.rows, name).extend(getattr(rows, name))
        for name, added in rows.appended.items():
            self.rows.appended[name].extend(added)
        return rows

    def node(self, node: int) -> Any:  # noqa: ANN401 - the author's own class
        """Returns the program object of `node`. Raises a KeyError if the node is down."""
        return self._running().nodes[node].program

    def durable(self, node: int) -> Mapping[str, Any]:
        """Returns the durable tables of `node`, by name. The node may be up or down."""
        running = self._running()
        if node in running.down:
            return running.down[node]
        program = running.nodes[node].program
        return {name: getattr(program, name) for name in self._plan.durable}

    @property
    def up(self) -> dict[int, Any]:
        """The program object of each node that is up."""
        return {at: node.program for at, node in self._running().nodes.items()}

    @property
    def timers(self) -> dict[int, Mapping[tuple[str, int], int]]:
        """The timers of each node: the round in which the timer expires, by (name, key)."""
        return {at: node.internal.timers for at, node in self._running().nodes.items()}

    @property
    def round(self) -> int:
        """The last executed round."""
        return self._running().round

    @property
    def in_flight(self) -> list[Flight]:
        """The messages in flight, ascending by id."""
        return self._running().flights

    @property
    def next_round(self) -> int | None:
        """The next round with an event, or None if no event remains."""
        return self._running().next_round()

    def _check_is_ahead(self, what: str, node: int) -> None:
        if self._network is not None:
            late = f"{what} of node {node} comes after the run has begun"
            raise ValueError(f"{late}; schedule it before the first `play` or `node`")

    def _running(self) -> Network:
        if self._network is None:
            self._network, self.rows = self._start()
        return self._network

    def _start(self) -> tuple[Network, HistoryRows]:
        for node, number in self._by_topic:  # publications without `matches` match the subscriptions to their topic
            call = self._calls[node][number - 1]
            wanted = (one for one, predicate in self._predicates.items() if predicate == f"topic = {call.topic}")
            self._calls[node][number - 1] = replace(call, matches=tuple(sorted(wanted)))  # type: ignore[call-arg]
        by_round: dict[int, dict[int, list[Call]]] = {}
        pauses = NodeIntervals(self._paused)
        for node, calls in self._calls.items():
            for call in calls:
                pause = pauses.at(node, call.round)
                due = call.round if pause is None or pause.end_round is None else pause.end_round
                by_round.setdefault(due, {}).setdefault(node, []).append(replace(call, round=due))
        given = RunInput(
            0, self._settings, self._links, by_round, NodeIntervals(self._down), pauses, self._strike,
            subscribers=self._subscribers, predicates=self._predicates,
            replacements=sorted(self._replaced, key=lambda one: one.round),
        )  # fmt: skip
        return Network.begun(self._plan, given, self._nodes, self._calls)
