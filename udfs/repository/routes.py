"""Routes between clients and repositories: shortest paths, one message per link (rule P29).

A node with one neighbour needs no routes. Every other node is a *router*: it knows the overlay, watches the brokers,
and computes routes around crashed brokers. A recovered broker repeats its announcement to each router until that router
answers (rule P31). An event with an empty list of receivers is a discovery: the first router that receives it sends it
to all repositories (rule P33).
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
    """The announcement that a broker has recovered, so that routes may use the broker again."""

    broker: Annotated[int, "id of the broker"]
    up_round: Annotated[int, "round in which the broker recovered"]


@message("Broker-Up-ACK")
class BrokerUpAck:
    """The answer to Broker-Up."""

    node: Annotated[int, "id of the sender"]
    up_round: Annotated[int, "round of the recovery that Broker-Up named"]


def set_initial_routes(world: World) -> None:
    """Sets the neighbours, the links and the routes of each node before the first round."""
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
    """Starts a watch on each broker, and computes the routes of the node."""
    for broker in _relays(state, ctx.node):
        ctx.watch(broker)
    compute_routes(state, ctx.node)


def recover(state: State, ctx: Context) -> None:
    """Announces this broker's recovery to all other routers, the nodes with several links (rule P31)."""
    n_links = Counter(link.src for link in state.link.values())
    state.announced = {node: Announced(node, ctx.round) for node, n in n_links.items() if n > 1 and node != ctx.node}
    announce(state, ctx)


def announce(state: State, ctx: Context) -> None:
    """Timer ``up``: sends Broker-Up to each node that has not answered yet (rule P31)."""
    for node, row in state.announced.items():
        ctx.send(node, BrokerUp(ctx.node, row.up_round), after=ctx.settings["reroute_rounds"])
    if state.announced:
        ctx.set_timer("up", rounds=2 * ctx.settings["reroute_rounds"] + 1)


def on_up(state: State, m: BrokerUp, src: int, ctx: Context) -> None:
    """Broker-Up (rule P31): answers with Broker-Up-ACK, and computes routes that may use the recovered broker."""
    broker = m.broker
    ctx.send(broker, BrokerUpAck(ctx.node, m.up_round), after=ctx.settings["reroute_rounds"])
    if state.link:
        state.down.pop(broker, None)
        ctx.watch(broker)
        compute_routes(state, ctx.node)


def on_up_ack(state: State, m: BrokerUpAck, src: int, ctx: Context) -> None:
    """Broker-Up-ACK (P31): ends the announcements to the sender. An answer to an earlier recovery is ignored."""
    row = state.announced.get(m.node)
    if row is not None and row.up_round == m.up_round:
        del state.announced[m.node]


def on_down(state: State, peer: int, ctx: Context) -> None:
    """Handles a crash report (rule P29): recomputes routes without broker `peer`, and stops sending Broker-Up to it."""
    state.announced.pop(peer, None)
    state.down[peer] = Down(peer)
    compute_routes(state, ctx.node)


def compute_routes(state: State, node: int) -> None:
    """Computes the next hop from `node` to every other node (rule P29).

    A route is the path with the lowest latency that contains no crashed broker, and then with the lowest next hop.
    """
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


def send(state: State, event: Any, ctx: Context, extra: int = 0) -> None:  # noqa: ANN401 - any event with `to`
    """Sends an event as one message per link. Field ``to`` of a message names the receivers beyond that link.

    An event without receivers is a discovery, and is sent to all repositories. Receivers to which this node has no
    route are omitted. The event is delayed by `extra` rounds.
    """
    if not event.to and not state.link:
        for hop in state.neighbour:
            ctx.send(hop, event)
        return
    if not event.to:
        known = {link.dst for link in state.link.values() if link.is_repository}
        event = replace(event, to=tuple(sorted(known - {event.origin})))
    for hop, to in _by_hop(state, event.to, ctx.node).items():
        part = event if to == event.to else replace(event, to=to)
        ctx.send(hop, part, after=state.neighbour[hop].latency_rounds + extra if extra else None)


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


def receive(state: State, event: Any, ctx: Context) -> tuple[bool, Any]:  # noqa: ANN401 - any event with `to`
    """Adds a hop to a received event. At a broker, forwards the event to its receivers other than this node.

    Returns whether this node is a receiver, and the event with the increased number of hops.
    """
    here = replace(event, hops=event.hops + 1)
    if not here.to and state.own.role == BROKER:
        send(state, here, ctx)
        return False, here
    others = tuple(one for one in event.to if one != ctx.node)
    if others and state.own.role == BROKER:
        send(state, replace(here, to=others), ctx)
    return ctx.node in event.to, here
