"""Servers and clients at the brokers of an overlay: more nodes, each with one link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import Overlay
from pipelines.errors import OverlayError, Problem, nearest
from pipelines.inputs.overlay.nodes import choose_nodes
from pipelines.scenario.overlay import (
    Attached,
    Client,
    ClientGenerator,
    GeneratedClients,
    GeneratedServers,
    Server,
    ServerGenerator,
)

Place = tuple[str | int, ...]
_SERVERS: Place = ("overlay", "servers")
_CLIENTS: Place = ("overlay", "clients")
_MAX_SEARCHED = 2000


def with_attached(
    brokers: Overlay, servers: list[Server] | ServerGenerator, clients: list[Client] | ClientGenerator, seed: int
) -> Overlay:
    """Returns the overlay with its servers and clients; their ids come after those of the brokers, in this order.

    Args:
        brokers: The overlay without them.
        servers: What the scenario says of them.
        clients: What it says of clients.
        seed: The run's.

    Raises:
        OverlayError: An edge broker is unknown, or two nodes would have one name.
    """
    if isinstance(servers, ServerGenerator):
        servers = _generated_servers(servers.generate, brokers, seed)
    taken = {*brokers.names, *(server.name for server in servers)}
    if isinstance(clients, ClientGenerator):
        clients = _generated_clients(clients.generate, brokers, taken, seed)
    attached: list[Attached] = [*servers, *clients]
    if not attached:
        return brokers
    ids = {name: node for node, name in enumerate(brokers.names)}
    problems = [*_problems(_SERVERS, servers, ids, set(brokers.names)), *_problems(_CLIENTS, clients, ids, taken)]
    if problems:
        raise OverlayError(*problems)
    a = np.concatenate([brokers.a, np.array([ids[one.at] for one in attached], dtype=np.int64)])
    b = np.concatenate([brokers.b, len(ids) + np.arange(len(attached), dtype=np.int64)])
    own = [one.latency for one in attached]
    latency = np.concatenate([brokers.latency_rounds, own]).astype(np.int64)
    back = None if brokers.back_rounds is None else np.concatenate([brokers.back_rounds, own]).astype(np.int64)
    order = np.lexsort((b, a))
    names = (*brokers.names, *(one.name for one in attached))
    return replace(
        brokers, names=names, a=a[order], b=b[order], latency_rounds=latency[order], n_clients=len(clients),
        n_servers=len(servers), back_rounds=None if back is None else back[order],
    )  # fmt: skip


def _problems(place: Place, attached: Sequence[Attached], ids: dict[str, int], taken: set[str]) -> Iterator[Problem]:
    for index, one in enumerate(attached):
        if one.name in taken:
            message = f"{one.name!r} is another node of the overlay; allowed: a name that no other node has"
            yield Problem((*place, index, "name"), message)
        if one.at not in ids:
            hint = nearest(one.at, list(ids)[:_MAX_SEARCHED])
            message = f"the overlay has no broker {one.at!r};{hint} allowed: one of its {len(ids)} brokers"
            yield Problem((*place, index, "at"), message)


def _generated_servers(spec: GeneratedServers, brokers: Overlay, seed: int) -> list[Server]:
    place = (*_SERVERS, "generate")
    if spec.at == "central":
        nodes = _central(spec.count or 1, brokers, (*place, "count"))
    else:
        nodes = choose_nodes(spec.at, brokers, seed, "overlay.servers", (*place, "at")).tolist()
    edges = [brokers.names[node] for node in nodes]
    servers = [Server(name=f"{spec.prefix}{i + 1}", at=at, latency=spec.latency) for i, at in enumerate(edges)]
    _check_names(servers, set(brokers.names), "server", (*place, "prefix"))
    return servers


def _central(count: int, brokers: Overlay, place: Place) -> list[int]:
    """Returns the brokers with the least latency to all others; of equal ones the lowest ids, in order of ids."""
    if count > brokers.n_brokers:
        message = f"count is {count}, the overlay has {brokers.n_brokers} brokers; give at most as many"
        raise OverlayError(Problem(place, message))
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(brokers.n_brokers))
    ends = (of.tolist() for of in (brokers.a, brokers.b, brokers.latency_rounds))
    graph.add_weighted_edges_from(zip(*ends, strict=True))
    far = {node: sum(found.values()) for node, found in nx.all_pairs_dijkstra_path_length(graph)}
    return sorted(sorted(far, key=lambda node: (far[node], node))[:count])


def _generated_clients(spec: GeneratedClients, brokers: Overlay, taken: set[str], seed: int) -> list[Client]:
    nodes = choose_nodes(spec.at, brokers, seed, "overlay.clients", (*_CLIENTS, "generate", "at"))
    edges = [brokers.names[node] for node in nodes.tolist() for _ in range(spec.per_broker)]
    clients = [Client(name=f"{spec.prefix}{i + 1}", at=at, latency=spec.latency) for i, at in enumerate(edges)]
    _check_names(clients, taken, "client", (*_CLIENTS, "generate", "prefix"))
    return clients


def _check_names(made: Sequence[Attached], taken: set[str], what: str, place: Place) -> None:
    twice = sorted({one.name for one in made} & taken)
    if twice:
        raise OverlayError(
            Problem(place, f"a {what} would be called {twice[0]!r}, as another node is; give another prefix")
        )
