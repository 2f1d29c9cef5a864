"""Relays between clients and repositories (rule P29): shortest routes, and one row a link.

A node with one neighbour needs no routes. Others know the overlay, watch the brokers, and route around those that are
down. A broker that is up again says so to each of them until that one answers (rule P31). An event without receivers is
a discovery: the first node with routes sends it on to all repositories (rule P33).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

from udfs.nodes.context import Context
from udfs.nodes.records import message
from udfs.nodes.world import World
from udfs.repository.state import Announced, Down, Hop, Link, Neighbour, State

BROKER = "broker"


@message("Broker-Up")
class BrokerUp:
    """A broker is up again: routes may lead over it."""

    broker: Annotated[int, "its id"]
    up_round: Annotated[int, "round of its recovery"]


@message("Broker-Up-ACK")
class BrokerUpAck:
    """Answers Broker-Up: routes lead over the broker again."""

    node: Annotated[int, "the node that answers"]
    up_round: Annotated[int, "round of the recovery that it answers"]


def lay(world: World) -> None:
    """Sets the links that each node knows, and its routes."""
    is_relay = {node: info.role not in ("client", "repository") for node, info in world.nodes.items()}
    links = [
        Link(src, dst, latency, is_relay[dst], world.nodes[dst].role == "repository")
        for (src, dst), latency in sorted(world.links.items())
    ]
    for node in world.nodes:
        state, near = world.program(node), world.neighbours(node)
        state.neighbour = {one: Neighbour(one, latency) for one, latency in near.items()}
        if len(near) > 1:
            state.link = {(link.src, link.dst): replace(link) for link in links}
            start(state, world.context(node))


def start(state: State, ctx: Context) -> None:
    """Starts to watch the brokers, and takes all of them for up."""
    for broker in _relays(state, ctx.node):
        ctx.watch(broker)
    find(state, ctx.node)


def recover(state: State, ctx: Context) -> None:
    """Starts to say that this broker is up again: to all nodes that have routes."""
    n_links = Counter(link.src for link in state.link.values())
    state.announced = {node: Announced(node, ctx.round) for node, n in n_links.items() if n > 1 and node != ctx.node}
    announce(state, ctx)


def announce(state: State, ctx: Context) -> None:
    """Sends Broker-Up to those that have not answered, and again until all have (rule P31)."""
    for node, row in sorted(state.announced.items()):
        ctx.send(node, BrokerUp(ctx.node, row.up_round), after=ctx.settings["reroute_rounds"])
    if state.announced:
        ctx.set_timer("up", rounds=2 * ctx.settings["reroute_rounds"] + 1)


def on_up(state: State, m: BrokerUp, ctx: Context) -> None:
    """Routes over a broker again, and answers it."""
    broker = m.broker
    ctx.send(broker, BrokerUpAck(ctx.node, m.up_round), after=ctx.settings["reroute_rounds"])
    if state.link:
        state.down.pop(broker, None)
        ctx.watch(broker)
        find(state, ctx.node)


def on_up_ack(state: State, m: BrokerUpAck) -> None:
    """Sends no more Broker-Up to a node that has answered; an answer to an earlier recovery counts for nothing."""
    row = state.announced.get(m.node)
    if row is not None and row.up_round == m.up_round:
        del state.announced[m.node]


def on_down(state: State, broker: int, ctx: Context) -> None:
    """Routes around a broker that is down; when it is up again, it takes all others for up."""
    state.announced.pop(broker, None)
    state.down[broker] = Down(broker)
    find(state, ctx.node)


def find(state: State, node: int) -> None:
    """Finds the first hop to every node: the shortest latency, of equal ones the lowest next hop."""
    near: dict[int, list[Link]] = {}
    for link in state.link.values():
        near.setdefault(link.src, []).append(link)
    relays = set(_relays(state, node)) - {*state.down}
    state.hop = {}
    waiting = [(link.latency_rounds, link.dst, link.dst) for link in near.get(node, ())]
    heapq.heapify(waiting)
    while waiting:
        latency, first, dst = heapq.heappop(waiting)
        if dst in state.hop or dst == node or dst in state.down:
            continue
        state.hop[dst] = Hop(dst, first)
        if dst in relays:
            for link in near.get(dst, ()):
                heapq.heappush(waiting, (latency + link.latency_rounds, first, link.dst))


def put(state: State, event: Any, ctx: Context, extra: int = 0) -> None:  # noqa: ANN401 - any event with `to`
    """Puts an event on links: one row per link, with the receivers behind it in ``to``.

    Args:
        state: The node.
        event: The event; receivers without a route are omitted. Without receivers it is a discovery.
        ctx: The node's round.
        extra: Rounds of work before it is sent.
    """
    if not event.to and not state.link:
        for hop in state.neighbour:
            ctx.send(hop, event)
        return
    event = event if event.to else _discovering(state, event)
    for hop, to in _by_hop(state, event.to, ctx.node).items():
        part = event if to == event.to else replace(event, to=to)
        ctx.send(hop, part, after=state.neighbour[hop].latency_rounds + extra if extra else None)


def _discovering(state: State, event: Any) -> Any:  # noqa: ANN401 - as above
    """Returns an event for all repositories but its sender."""
    known = {link.dst for link in state.link.values() if link.is_repository}
    return replace(event, to=tuple(sorted(known - {event.origin})))


def _by_hop(state: State, to: Iterable[int], node: int) -> dict[int, tuple[int, ...]]:
    only = next(iter(state.neighbour)) if len(state.neighbour) == 1 else None
    parts: dict[int, tuple[int, ...]] = {}
    for dst in to:
        hop = only if only is not None else state.hop[dst].next if dst in state.hop else None
        if dst != node and hop is not None:
            parts[hop] = (*parts.get(hop, ()), dst)
    return dict(sorted(parts.items()))


def _relays(state: State, node: int) -> list[int]:
    return sorted({link.dst for link in state.link.values() if link.is_relay} - {node})


def arrive(state: State, event: Any, ctx: Context) -> tuple[bool, Any]:  # noqa: ANN401 - any event with `to`
    """Sends an event on to others; returns whether it is for this node too, and the event as it is here."""
    here = replace(event, hops=event.hops + 1)
    if not here.to and state.own.role == BROKER:
        put(state, here, ctx)
        return False, here
    others = tuple(one for one in event.to if one != ctx.node)
    if others and state.own.role == BROKER:
        put(state, replace(here, to=others), ctx)
    return ctx.node in event.to, here
