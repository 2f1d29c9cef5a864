"""Subscriptions made from the seed: topics, classes with intervals, stock quotes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from pipelines.contract.predicate import Predicate, canonical
from pipelines.contract.run_inputs import SUBSCRIPTION, Overlay
from pipelines.errors import Problem, WorkloadError
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.nodes import Ints, Place, choose_nodes
from pipelines.inputs.workload import quotes
from pipelines.inputs.workload.distributions import (
    Floats,
    RepetitionError,
    decimals,
    distinct_ranks,
    distinct_rows,
    topic_name,
    topic_path,
    zipf,
)
from pipelines.inputs.workload.lists import SUBSCRIPTIONS, after_horizon, canonical_text
from pipelines.scenario.workload import (
    AttributeRange,
    ContentSubscriptions,
    QuoteSubscriptions,
    TopicSubscriptions,
)

SubscriptionSpec: TypeAlias = TopicSubscriptions | ContentSubscriptions | QuoteSubscriptions

PLACE: Place = (*SUBSCRIPTIONS, "generate")
MAX_SUBSCRIPTIONS = 20_000_000
_PURPOSE = "workload.subscriptions"


def generated_subscriptions(spec: SubscriptionSpec, overlay: Overlay, seed: int, horizon: int) -> pa.Table:
    """Returns the subscription table of a generator, in order of (node as chosen, index).

    Raises:
        WorkloadError: The nodes cannot be chosen, a round lies after the horizon, or there are fewer different
            subscriptions than a node is to make.
    """
    if spec.rounds[1] > horizon:
        raise WorkloadError(Problem((*PLACE, "rounds"), after_horizon(spec.rounds[1], horizon)))
    nodes = choose_nodes(spec.nodes, overlay, seed, f"{_PURPOSE}.nodes", (*PLACE, "nodes"))
    if len(nodes) * spec.per_node > MAX_SUBSCRIPTIONS:
        message = f"{len(nodes)} nodes with {spec.per_node} each; at most {MAX_SUBSCRIPTIONS:,} subscriptions are made"
        raise WorkloadError(Problem((*PLACE, "per_node"), message))
    node = np.repeat(nodes, spec.per_node)
    index = np.tile(np.arange(spec.per_node, dtype=np.int64), len(nodes))
    texts = _texts(spec, nodes, node, index, seed)
    round_ = draws_numpy.integers(seed, f"{_PURPOSE}.round", *spec.rounds, node, index)
    end_round = pa.nulls(len(node), pa.int64())
    if spec.lifetime is not None:
        end_round = pa.array(round_ + draws_numpy.integers(seed, f"{_PURPOSE}.lifetime", *spec.lifetime, node, index))
    return pa.table([pa.array(node), pa.array(round_), end_round, texts], schema=SUBSCRIPTION)


def _texts(spec: SubscriptionSpec, nodes: Ints, node: Ints, index: Ints, seed: int) -> pa.Array:
    try:
        match spec:
            case TopicSubscriptions():
                ranks = distinct_ranks(nodes, spec.per_node, spec.n_topics, spec.zipf, seed, f"{_PURPOSE}.topic")
                return _topic_texts(spec, ranks.ravel(), node, index, seed)
            case ContentSubscriptions():
                return _content_texts(spec, nodes, node, index, seed)
            case QuoteSubscriptions():
                return _quote_texts(spec, node, index, seed)
    except RepetitionError:
        message = f"a node finds no {spec.per_node} different subscriptions; give fewer, or more classes or symbols"
        raise WorkloadError(Problem((*PLACE, "per_node"), message)) from None


def _topic_texts(spec: TopicSubscriptions, ranks: Ints, node: Ints, index: Ints, seed: int) -> pa.Array:
    distinct, place = np.unique(ranks, return_inverse=True)
    texts = [canonical_text(topic_name(rank, spec.levels), None) for rank in distinct.tolist()]
    exact = pa.array(texts, pa.string()).take(pa.array(place))
    if not spec.wildcards:
        return exact
    draw = [draws_numpy.uniform(seed, f"{_PURPOSE}.{what}", node, index) for what in ("wildcard", "filter", "level")]
    found, seen = exact.to_pylist(), set[tuple[int, str]]()
    for row in np.flatnonzero(draw[0] < spec.wildcards).tolist():
        path = topic_path(int(ranks[row]), spec.levels)
        if draw[1][row] < 0.5:
            path = [*path[: 1 + int(draw[2][row] * (len(path) - 1))], "#"]
        else:
            path[int(draw[2][row] * len(path))] = "+"
        filtered = canonical_text("/".join(path), None, is_mqtt=True)
        if (int(node[row]), filtered) not in seen:
            seen.add((int(node[row]), filtered))
            found[row] = filtered
    return pa.array(found, pa.string())


def _content_texts(spec: ContentSubscriptions, nodes: Ints, node: Ints, index: Ints, seed: int) -> pa.Array:
    ranks, *starts = _classes_and_starts(spec, nodes, node, index, seed)
    names = sorted(spec.attributes)
    bounds = [
        (name, start.tolist(), _ends(spec.attributes[name], spec.selectivity, start).tolist())
        for name, start in zip(names, starts, strict=True)
    ]
    return pa.array([_content_text(int(rank), bounds, row) for row, rank in enumerate(ranks.tolist())], pa.string())


def _classes_and_starts(spec: ContentSubscriptions, nodes: Ints, node: Ints, index: Ints, seed: int) -> list[Floats]:
    """Draws a class, and where the interval of each attribute begins; the two together do not repeat at a node."""

    def starts(rows: Ints, attempt: int) -> list[Floats]:
        keys = (node[rows], index[rows], attempt)
        drawn = ((n, draws_numpy.uniform(seed, f"{_PURPOSE}.interval.{n}", *keys)) for n in sorted(spec.attributes))
        return [_starts(spec.attributes[name], spec.selectivity, share) for name, share in drawn]

    def draw(rows: Ints, attempt: int) -> list[Floats]:
        chance = draws_numpy.uniform(seed, f"{_PURPOSE}.class", node[rows], index[rows], attempt)
        return [zipf(chance, spec.classes, spec.zipf).astype(np.float64), *starts(rows, attempt)]

    if any(not _is_whole(bounds, spec.selectivity) for bounds in spec.attributes.values()):
        return distinct_rows(node, draw)
    ranks = distinct_ranks(nodes, spec.per_node, spec.classes, spec.zipf, seed, f"{_PURPOSE}.class")
    return [ranks.ravel().astype(np.float64), *starts(np.arange(len(node)), 0)]


def _is_whole(bounds: AttributeRange, selectivity: float) -> bool:
    """Whether every interval of the attribute is its whole range."""
    return selectivity >= 1 or bounds.low == bounds.high


def _starts(bounds: AttributeRange, selectivity: float, share: Floats) -> Floats:
    if _is_whole(bounds, selectivity):
        return np.full(len(share), bounds.low)
    start = bounds.low + share * (1.0 - selectivity) * (bounds.high - bounds.low)
    return np.clip(np.round(start, decimals(bounds.low, bounds.high)), bounds.low, bounds.high) + 0.0


def _ends(bounds: AttributeRange, selectivity: float, start: Floats) -> Floats:
    if _is_whole(bounds, selectivity):
        return np.full(len(start), bounds.high)
    end = start + selectivity * (bounds.high - bounds.low)
    return np.minimum(np.round(end, decimals(bounds.low, bounds.high)), bounds.high) + 0.0


def _content_text(rank: int, bounds: list[tuple[str, list[float], list[float]]], row: int) -> str:
    predicates = [Predicate("topic", "=", f"class{rank + 1}")]
    for name, low, high in bounds:
        predicates += [Predicate(name, ">=", low[row]), Predicate(name, "<=", high[row])]
    return canonical(predicates)


def _quote_texts(spec: QuoteSubscriptions, node: Ints, index: Ints, seed: int) -> pa.Array:
    """Asks for a price near the symbol's start and a middling volume: each holds for about half of the quotes."""

    def draw(rows: Ints, attempt: int) -> list[Floats]:
        keys = (node[rows], index[rows], attempt)
        ranks = zipf(draws_numpy.uniform(seed, f"{_PURPOSE}.symbol", *keys), spec.symbols, spec.zipf)
        factor = np.exp(0.02 * draws_numpy.normal(seed, f"{_PURPOSE}.price", *keys))
        price = np.round(quotes.start_prices(seed, ranks) * factor, 2)
        volume = quotes.volumes(0.25 + 0.5 * draws_numpy.uniform(seed, f"{_PURPOSE}.volume", *keys))
        return [ranks.astype(np.float64), price, volume]

    columns = [column.tolist() for column in distinct_rows(node, draw)]
    return pa.array(
        [_quote_text(int(rank), price, volume) for rank, price, volume in zip(*columns, strict=True)], pa.string()
    )


def _quote_text(rank: int, price: float, volume: float) -> str:
    return canonical(
        (
            Predicate("topic", "=", quotes.TOPIC),
            Predicate("symbol", "=", quotes.symbol(rank)),
            Predicate("price", ">", price),
            Predicate("volume", ">", volume),
        )
    )
