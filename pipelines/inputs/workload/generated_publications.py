"""Publications made from the seed: topics, classes with attributes, stock quotes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.run_inputs import Overlay
from pipelines.errors import Problem, WorkloadError
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.nodes import Ints, Place, choose_nodes
from pipelines.inputs.workload import quotes
from pipelines.inputs.workload.bank import bank_operations
from pipelines.inputs.workload.contents import attribute_rows, json_rows, publication_rows
from pipelines.inputs.workload.distributions import Floats, decimals, publication_slots, topic_name, zipf
from pipelines.inputs.workload.lists import PUBLICATIONS, after_horizon
from pipelines.scenario.workload import (
    BankPublications,
    ContentPublications,
    QuotePublications,
    TopicPublications,
)

PublicationSpec: TypeAlias = TopicPublications | ContentPublications | QuotePublications | BankPublications
Columns: TypeAlias = dict[str, pa.Array]

PLACE: Place = (*PUBLICATIONS, "generate")
MAX_PUBLICATIONS = 20_000_000
MAX_CHANCES = 500_000_000
_PURPOSE = "workload.publications"


def generated_publications(
    spec: PublicationSpec, overlay: Overlay, seed: int, horizon: int
) -> tuple[pa.Table, pa.Table]:
    """Returns the publication and the attribute table of a generator, in order of (round, node as chosen, index).

    Raises:
        WorkloadError: The nodes cannot be chosen, a round lies after the horizon, or there are too many publications.
    """
    if spec.rounds[1] > horizon:
        raise WorkloadError(Problem((*PLACE, "rounds"), after_horizon(spec.rounds[1], horizon)))
    nodes = choose_nodes(spec.nodes, overlay, seed, f"{_PURPOSE}.nodes", (*PLACE, "nodes"))
    if isinstance(spec, BankPublications):
        return bank_operations(spec, nodes, seed)
    _refuse_flood(spec, len(nodes))
    slots = publication_slots(nodes, spec.rounds, spec.rate, seed)
    node, round_, index = slots
    keys = (node, index, round_)
    match spec:
        case TopicPublications():
            topic, columns = _topics(spec, seed, keys)
        case ContentPublications():
            topic, columns = _contents(spec, seed, keys)
        case QuotePublications():
            topic, columns = _quotes(spec, seed, keys)
    publication = publication_rows(node, round_, topic, json_rows(columns, len(node)))
    return publication, attribute_rows(topic, columns)


def _refuse_flood(spec: TopicPublications | ContentPublications | QuotePublications, nodes: int) -> None:
    chances = nodes * (spec.rounds[1] - spec.rounds[0] + 1)
    if chances * spec.rate > MAX_PUBLICATIONS or chances > MAX_CHANCES:
        message = (
            f"{nodes} nodes over rounds {spec.rounds[0]} to {spec.rounds[1]} at rate {spec.rate:g} make about"
            f" {chances * spec.rate:,.0f} publications; at most {MAX_PUBLICATIONS:,} publications and {MAX_CHANCES:,}"
            " pairs of node and round: lower the rate, the nodes or the rounds"
        )
        raise WorkloadError(Problem((*PLACE, "rate"), message))


def _popular(prefix: str, size: int, exponent: float, seed: int, keys: tuple[Ints, Ints, Ints]) -> pa.Array:
    ranks = zipf(draws_numpy.uniform(seed, f"{_PURPOSE}.{prefix}", *keys), size, exponent)
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(ranks + 1), pa.string()), "")


def _topics(spec: TopicPublications, seed: int, keys: tuple[Ints, Ints, Ints]) -> tuple[pa.Array, Columns]:
    ranks = zipf(draws_numpy.uniform(seed, f"{_PURPOSE}.topic", *keys), spec.n_topics, spec.zipf)
    distinct, place = np.unique(ranks, return_inverse=True)
    names = [topic_name(rank, spec.levels) for rank in distinct.tolist()]
    return pa.array(names, pa.string()).take(pa.array(place)), {}


def _contents(spec: ContentPublications, seed: int, keys: tuple[Ints, Ints, Ints]) -> tuple[pa.Array, Columns]:
    columns = {}
    for name, bounds in spec.attributes.items():
        low, high = bounds.low, bounds.high
        drawn = low + draws_numpy.uniform(seed, f"{_PURPOSE}.attribute.{name}", *keys) * (high - low)
        rounded = np.clip(np.round(drawn, decimals(low, high)), low, high) if high > low else drawn
        columns[name] = pa.array(rounded + 0.0)
    return _popular("class", spec.classes, spec.zipf, seed, keys), columns


def _quotes(spec: QuotePublications, seed: int, keys: tuple[Ints, Ints, Ints]) -> tuple[pa.Array, Columns]:
    ranks = zipf(draws_numpy.uniform(seed, f"{_PURPOSE}.symbol", *keys), spec.symbols, spec.zipf)
    columns = {
        "symbol": quotes.symbols(spec.symbols).take(pa.array(ranks)),
        "price": pa.array(_walk(ranks, spec.volatility * draws_numpy.normal(seed, f"{_PURPOSE}.price", *keys), seed)),
        "volume": pa.array(quotes.volumes(draws_numpy.uniform(seed, f"{_PURPOSE}.volume", *keys)).astype(np.int64)),
    }
    return pa.repeat(pa.scalar(quotes.TOPIC, pa.string()), len(ranks)), columns


def _walk(ranks: Ints, steps: Floats, seed: int) -> Floats:
    """Returns the price after each step of its symbol's geometric random walk, held where cents and floats suffice."""
    order = np.argsort(ranks, kind="stable")
    symbol = ranks[order]
    total = np.cumsum(steps[order])
    is_first = np.concatenate([[True], symbol[1:] != symbol[:-1]])[: len(symbol)]
    before = (total - steps[order])[is_first][np.cumsum(is_first) - 1] if len(symbol) else total
    logs = np.log(quotes.start_prices(seed, symbol)) + total - before
    price = np.empty(len(ranks))
    price[order] = np.exp(np.clip(logs, np.log(quotes.LEAST_PRICE), np.log(quotes.MOST_PRICE)))
    return np.round(price, 2)
