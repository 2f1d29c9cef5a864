"""Generated overlays. Random draws are hashes, so equal seeds give equal overlays on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import Ints
from pipelines.errors import InputError, Problem
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.weighted import WeightedGraph, network
from pipelines.scenario.overlay import GenerateOverlay

MAX_LINKS = 5_000_000
MAX_TRIES = 100
_BATCH = 1 << 16

Ends = tuple[Ints, Ints]


def generate(spec: GenerateOverlay, seed: int) -> WeightedGraph:
    """Returns a generated overlay whose links take one round each. Only random overlays depend on `seed`."""
    n_nodes = (spec.rows or 0) * (spec.columns or 0) if spec.nodes is None else spec.nodes
    a, b = _MAKERS[spec.kind](spec, n_nodes, seed)
    low, high = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((high, low))
    return WeightedGraph(_names(spec.prefix, n_nodes), low[order], high[order])


@lru_cache(maxsize=8)
def _names(prefix: str, n_nodes: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(1, n_nodes + 1))


def _grid(spec: GenerateOverlay, n: int, _seed: int) -> Ends:
    columns = spec.columns or math.isqrt(n - 1) + 1  # almost a square; the last row may be shorter
    node = np.arange(n)
    right = node[(node % columns < columns - 1) & (node + 1 < n)]
    below = node[node + columns < n]
    return np.concatenate([right, below]), np.concatenate([right + 1, below + columns])


def _random_tree(spec: GenerateOverlay, n: int, seed: int) -> Ends:
    """Returns the links of a random recursive tree: each node is linked to a randomly chosen earlier node.

    Only nodes with fewer than `max_degree` links can be chosen.
    """
    child = np.arange(1, n)
    drawn = draws_numpy.uniform(seed, "overlay.parent", child)
    if spec.max_degree is None or spec.max_degree >= n - 1:
        return (drawn * child).astype(np.int64), child
    free = [0]
    n_free_links = [spec.max_degree - 1] * n
    n_free_links[0] += 1
    parents = []
    for i, share in enumerate(drawn.tolist(), start=1):
        at = int(share * len(free))
        parent = free[at]
        parents.append(parent)
        n_free_links[parent] -= 1
        if not n_free_links[parent]:
            free[at] = free[-1]
            free.pop()
        free.append(i)
    return np.array(parents, dtype=np.int64), child


def _erdos_renyi(spec: GenerateOverlay, n: int, seed: int) -> Ends:
    p = spec.probability or 0.0
    pairs = n * (n - 1) // 2
    _check_links(p * pairs)
    advice = f"above {math.log(n) / n:.3g} (ln n / n) most of them are" if n > 1 else "take more nodes"
    graphs = (_pairs(_random_pairs(pairs, p, seed, attempt)) for attempt in range(MAX_TRIES))
    return _connected(n, graphs, "probability", f"random graphs with {n} nodes and probability {p:g}", advice)


def _connected(n: int, graphs: Iterator[Ends], key: str, what: str, advice: str) -> Ends:
    for ends in graphs:
        if nx.is_connected(network(n, *ends)):
            return ends
    raise _refused(key, f"of {MAX_TRIES} {what} none is connected; {advice}")


def _random_pairs(pairs: int, p: float, seed: int, attempt: int) -> Ints:
    """Returns the indexes of the pairs of nodes to link; each index below `pairs` is chosen with probability `p`.

    The gaps between consecutive indexes are drawn from a geometric distribution (Batagelj and Brandes 2005).
    """
    found: list[Ints] = []
    last, drawn = -1, 0
    batch = min(int(1.2 * p * pairs) + 32, _BATCH)
    with np.errstate(divide="ignore"):
        log_rest = np.log1p(-p)
    while p > 0 and last < pairs:
        keys = np.arange(drawn, drawn + batch)
        gaps = np.floor(np.log1p(-draws_numpy.uniform(seed, "overlay.erdos_renyi", attempt, keys)) / log_rest)
        at = last + np.cumsum(np.minimum(gaps, pairs).astype(np.int64) + 1)
        found.append(at[at < pairs])
        last, drawn = int(at[-1]), drawn + batch
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _pairs(k: Ints) -> Ends:
    """Returns the pairs at the indexes `k` of the sequence (0,1), (0,2), (1,2), (0,3), ... of pairs of nodes."""
    b = np.floor((1.0 + np.sqrt(1.0 + 8.0 * k)) / 2.0).astype(np.int64)
    b -= b * (b - 1) // 2 > k
    b += b * (b + 1) // 2 <= k
    return k - b * (b - 1) // 2, b


def _barabasi_albert(spec: GenerateOverlay, n: int, seed: int) -> Ends:
    # The first `attach` + 1 nodes form a star; targets are drawn from the ends of all links, in proportion to degree.
    m = spec.attach
    _check_links(float(m) * n)
    stream = _stream(seed, "overlay.barabasi_albert", 0)
    a, b = [0] * m, list(range(1, m + 1))
    by_degree = a + b
    for node in range(m + 1, n):
        targets: dict[int, None] = {}
        while len(targets) < m:
            targets[by_degree[int(next(stream) * len(by_degree))]] = None
        a.extend(targets)
        b.extend([node] * m)
        by_degree.extend(targets)
        by_degree.extend([node] * m)
    return np.array(a, dtype=np.int64), np.array(b, dtype=np.int64)


def _watts_strogatz(spec: GenerateOverlay, n: int, seed: int) -> Ends:
    p, k = spec.probability or 0.0, spec.neighbours
    if k % 2:
        raise _refused("neighbours", f"neighbours is {k}; a ring lattice has an even number, half on each side")
    _check_links(n * k / 2)
    graphs = (_rewired(n, k, p, seed, attempt) for attempt in range(MAX_TRIES))
    what = f"rewired rings with {n} nodes and {k} neighbours"
    return _connected(n, graphs, "neighbours", what, "take more neighbours")


def _rewired(n: int, k: int, p: float, seed: int, attempt: int) -> Ends:
    node, step = np.divmod(np.arange(n * (k // 2)), k // 2)
    far = (node + step + 1) % n
    moved = np.flatnonzero(draws_numpy.uniform(seed, "overlay.watts_strogatz", attempt, node, step) < p)
    if len(moved):
        neighbours: list[set[int]] = [set() for _ in range(n)]
        for u, v in zip(node.tolist(), far.tolist(), strict=True):
            neighbours[u].add(v)
            neighbours[v].add(u)
        stream = _stream(seed, "overlay.watts_strogatz.target", attempt)
        for i in moved[np.argsort(step[moved], kind="stable")].tolist():
            u, v = int(node[i]), int(far[i])
            if len(neighbours[u]) >= n - 1:
                continue
            while (w := int(next(stream) * n)) == u or w in neighbours[u]:
                pass
            neighbours[u].remove(v)
            neighbours[v].remove(u)
            neighbours[u].add(w)
            neighbours[w].add(u)
            far[i] = w
    return node, far


def _stream(seed: int, purpose: str, attempt: int) -> Iterator[float]:
    drawn, batch = 0, 256
    while True:
        yield from draws_numpy.uniform(seed, purpose, attempt, np.arange(drawn, drawn + batch)).tolist()
        drawn, batch = drawn + batch, min(2 * batch, _BATCH)


def _check_links(expected: float) -> None:
    if expected > MAX_LINKS:
        raise _refused("nodes", f"that is about {expected:,.0f} links; a generated overlay has at most {MAX_LINKS:,}")


def _refused(key: str, message: str) -> InputError:
    return InputError(Problem(("overlay", "generate", key), message))


_MAKERS: dict[str, Callable[[GenerateOverlay, int, int], Ends]] = {
    "line": lambda _spec, n, _seed: (np.arange(n - 1), np.arange(1, n)),
    "star": lambda _spec, n, _seed: (np.zeros(n - 1, dtype=np.int64), np.arange(1, n)),
    "ring": lambda _spec, n, _seed: (np.arange(n), (np.arange(n) + 1) % n),
    "balanced_tree": lambda spec, n, _seed: (np.arange(n - 1) // spec.branching, np.arange(1, n)),
    "grid": _grid, "random_tree": _random_tree, "erdos_renyi": _erdos_renyi, "barabasi_albert": _barabasi_albert,
    "watts_strogatz": _watts_strogatz,
}  # fmt: skip
