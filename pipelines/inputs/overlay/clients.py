"""Clients at the brokers of an overlay: more nodes, each with one link."""

from __future__ import annotations

import numpy as np

from pipelines.errors import OverlayError, Problem, nearest
from pipelines.inputs.overlay.graph import Overlay
from pipelines.inputs.overlay.nodes import choose_nodes
from pipelines.spec.overlay import Client, ClientGenerator, GeneratedClients

Place = tuple[str | int, ...]
_PLACE: Place = ("overlay", "clients")
_MAX_SEARCHED = 2000


def with_clients(brokers: Overlay, clients: list[Client] | ClientGenerator, seed: int) -> Overlay:
    """Returns the overlay with its clients; their ids come after those of the brokers.

    Args:
        brokers: The overlay without them.
        clients: What the scenario says.
        seed: The run's.

    Raises:
        OverlayError: An edge broker is unknown, or a client is called like a broker.
    """
    if isinstance(clients, ClientGenerator):
        clients = _generated(clients.generate, brokers, seed)
    if not clients:
        return brokers
    ids = {name: node for node, name in enumerate(brokers.names)}
    problems = [problem for place, client in enumerate(clients) for problem in _problems(place, client, ids)]
    if problems:
        raise OverlayError(*problems)
    a = np.concatenate([brokers.a, np.array([ids[client.at] for client in clients], dtype=np.int64)])
    b = np.concatenate([brokers.b, len(ids) + np.arange(len(clients), dtype=np.int64)])
    latency = np.concatenate([brokers.latency_rounds, [client.latency for client in clients]]).astype(np.int64)
    order = np.lexsort((b, a))
    names = (*brokers.names, *(client.name for client in clients))
    return Overlay(names, a[order], b[order], latency[order], len(clients))


def _problems(index: int, client: Client, ids: dict[str, int]) -> list[Problem]:
    found = []
    if client.name in ids:
        message = f"{client.name!r} is a broker of the overlay; allowed: a name that no broker has"
        found.append(Problem((*_PLACE, index, "name"), message))
    if client.at not in ids:
        hint = nearest(client.at, list(ids)[:_MAX_SEARCHED])
        message = f"the overlay has no broker {client.at!r};{hint} allowed: one of its {len(ids)} brokers"
        found.append(Problem((*_PLACE, index, "at"), message))
    return found


def _generated(spec: GeneratedClients, brokers: Overlay, seed: int) -> list[Client]:
    nodes = choose_nodes(spec.at, brokers, seed, "overlay.clients", (*_PLACE, "generate", "at"))
    edges = [brokers.names[node] for node in nodes.tolist() for _ in range(spec.per_broker)]
    clients = [Client(name=f"{spec.prefix}{i + 1}", at=at, latency=spec.latency) for i, at in enumerate(edges)]
    taken = sorted({client.name for client in clients} & set(brokers.names))
    if taken:
        message = f"a client would be called {taken[0]!r}, as a broker is; give another prefix"
        raise OverlayError(Problem((*_PLACE, "generate", "prefix"), message))
    return clients
