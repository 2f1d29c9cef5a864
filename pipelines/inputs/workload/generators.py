"""Subscriptions and publications drawn from the seed: topics, content, stock quotes, bank operations.

Bank operations are those of the thesis's BankService (Matos, Ginger, section 5.2). Each operation requests the weakest
delivery order that suffices: getBalance eventual order; deposit causal order, because deposits commute; withdraw,
transfer and applyInterest total order, because their effects depend on earlier operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.predicate import Predicate, canonical
from pipelines.contract.run_inputs import SUBSCRIPTION, Floats, Ints, Overlay, index_in_group
from pipelines.errors import InputError, KeyPath, Problem
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.build import choose_nodes
from pipelines.inputs.workload.calls import (
    PUBLICATIONS,
    SUBSCRIPTIONS,
    attribute_rows,
    canonical_text,
    json_rows,
    publication_rows,
)
from pipelines.scenario.workload import (
    AttributeRange,
    BankPublications,
    ContentPublications,
    ContentSubscriptions,
    QuotePublications,
    QuoteSubscriptions,
    TopicPublications,
    TopicSubscriptions,
)

QUOTE_TOPIC = "quotes"
LEAST_PRICE, MOST_PRICE = 0.01, 1_000_000.0
_START_LOW, _START_HIGH = 10.0, 500.0
_VOLUME_LOW, _VOLUME_HIGH = 100.0, 1_000_000.0
OPERATIONS = ("getBalance", "deposit", "withdraw", "transfer", "applyInterest")
_GUARANTEES = ("eventual", "causal", "total", "total", "total")
_WITHDRAW, _TRANSFER = OPERATIONS.index("withdraw"), OPERATIONS.index("transfer")
_BANK_PURPOSE = "workload.bank"
SubscriptionSpec: TypeAlias = TopicSubscriptions | ContentSubscriptions | QuoteSubscriptions
SUBSCRIPTIONS_PLACE: KeyPath = (*SUBSCRIPTIONS, "generate")
MAX_SUBSCRIPTIONS = 20_000_000
_SUBSCRIPTION_PURPOSE = "workload.subscriptions"
PublicationSpec: TypeAlias = TopicPublications | ContentPublications | QuotePublications | BankPublications
Columns: TypeAlias = dict[str, pa.Array]
PUBLICATIONS_PLACE: KeyPath = (*PUBLICATIONS, "generate")
MAX_PUBLICATIONS = 20_000_000
MAX_CHANCES = 500_000_000
_PUBLICATION_PURPOSE = "workload.publications"
_RACE_CELLS = 4_000_000
_RACE_SHARE = 16
_SLOT_CELLS = 4_000_000
_ATTEMPTS = 64


def quote_symbol(rank: int) -> str:
    """Returns the symbol of the stock with popularity `rank`: AAA, AAB, ..., ZZZ, BAAA, ..."""
    letters = ""
    while rank or len(letters) < 3:
        rank, letter = divmod(rank, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


def _each(ranks: Ints, name: Callable[[int], str]) -> pa.Array:
    distinct, place = np.unique(ranks, return_inverse=True)
    return pa.array([name(rank) for rank in distinct.tolist()], pa.string()).take(pa.array(place))


def start_prices(seed: int, ranks: Ints) -> Floats:
    """Returns the first price of each stock in `ranks`, log-uniform from 10 to 500."""
    drawn = draws_numpy.uniform(seed, "workload.quotes.start", ranks)
    prices: Floats = np.round(_START_LOW * (_START_HIGH / _START_LOW) ** drawn, 2)
    return prices


def quote_volumes(share: Floats) -> Floats:
    """Returns the volume at each quantile in `share`. Volumes are log-uniform whole numbers from 100 to 1,000,000."""
    quantiles: Floats = np.round(_VOLUME_LOW * (_VOLUME_HIGH / _VOLUME_LOW) ** share)
    return quantiles


def bank_operations(spec: BankPublications, nodes: Ints, seed: int) -> tuple[pa.Table, pa.Table]:
    """Returns drawn bank operations as tables `PUBLICATION` and `ATTRIBUTE`, ordered by (round, index in `nodes`)."""
    node = np.tile(nodes, spec.operations)
    index = np.repeat(np.arange(spec.operations, dtype=np.int64), len(nodes))
    start = draws_numpy.integers(seed, f"{_BANK_PURPOSE}.start", 0, spec.interval - 1, node)
    round_ = spec.round + index * spec.interval + start
    order = np.lexsort((np.arange(len(node)), round_))
    node, index, round_ = node[order], index[order], round_[order]
    total = (1.0 - spec.eventual - spec.causal) / 3.0
    ends = np.cumsum([spec.eventual, spec.causal, total, total])
    drawn = draws_numpy.uniform(seed, f"{_BANK_PURPOSE}.operation", node, index)
    operation = np.searchsorted(ends, drawn, side="right").astype(np.int64)
    if spec.accounts == 1:
        operation = np.where(operation == _TRANSFER, _WITHDRAW, operation)
    account = draws_numpy.integers(seed, f"{_BANK_PURPOSE}.account", 1, spec.accounts, node, index)
    step = draws_numpy.integers(seed, f"{_BANK_PURPOSE}.to", 1, max(1, spec.accounts - 1), node, index)
    columns = _bank_contents(spec, operation, account, (account - 1 + step) % spec.accounts + 1, seed, node, index)
    topic = pa.repeat(pa.scalar(spec.topic, pa.string()), len(node))
    guarantee = pa.array(_GUARANTEES).take(pa.array(operation))
    accounts = (columns[name].to_pylist() for name in ("account", "to"))
    keys = [[name] if to is None else [name, to] for name, to in zip(*accounts, strict=True)]
    publication = publication_rows(
        node, round_, topic, json_rows(columns, len(node)), guarantee, pa.array(keys, pa.list_(pa.string()))
    )
    return publication, attribute_rows(topic, columns)


def _bank_contents(
    spec: BankPublications, operation: Ints, account: Ints, to: Ints, seed: int, node: Ints, index: Ints
) -> dict[str, pa.Array]:
    amount = draws_numpy.integers(seed, f"{_BANK_PURPOSE}.amount", 1, spec.most, node, index)
    is_moved = np.isin(operation, [1, _WITHDRAW, _TRANSFER])
    return {
        "operation": pa.array(OPERATIONS).take(pa.array(operation)),
        "account": _account(account),
        "to": pc.if_else(pa.array(operation == _TRANSFER), _account(to), pa.scalar(None, pa.string())),
        "amount": pa.array(amount, mask=~is_moved),
        "interest": pa.array(np.full(len(node), spec.interest, dtype=np.int64), mask=operation != 4),
    }


def _account(number: Ints) -> pa.Array:
    return pc.binary_join_element_wise("account", pc.cast(pa.array(number), pa.string()), "")


def generated_subscriptions(spec: SubscriptionSpec, overlay: Overlay, seed: int) -> pa.Table:
    """Returns drawn subscriptions as table `SUBSCRIPTION`, in the order of the chosen nodes."""
    nodes = choose_nodes(spec.nodes, overlay, seed, f"{_SUBSCRIPTION_PURPOSE}.nodes", (*SUBSCRIPTIONS_PLACE, "nodes"))
    if len(nodes) * spec.per_node > MAX_SUBSCRIPTIONS:
        message = f"{len(nodes)} nodes with {spec.per_node} each; at most {MAX_SUBSCRIPTIONS:,} subscriptions are made"
        raise InputError(Problem((*SUBSCRIPTIONS_PLACE, "per_node"), message))
    node = np.repeat(nodes, spec.per_node)
    index = np.tile(np.arange(spec.per_node, dtype=np.int64), len(nodes))
    match spec:
        case TopicSubscriptions():
            texts = _topic_texts(spec, nodes, node, index, seed)
        case ContentSubscriptions():
            texts = _content_texts(spec, nodes, node, index, seed)
        case QuoteSubscriptions():
            texts = _quote_texts(spec, node, index, seed)
    round_ = draws_numpy.integers(seed, f"{_SUBSCRIPTION_PURPOSE}.round", *spec.rounds, node, index)
    end_round = pa.nulls(len(node), pa.int64())
    if spec.lifetime is not None:
        lifetime = draws_numpy.integers(seed, f"{_SUBSCRIPTION_PURPOSE}.lifetime", *spec.lifetime, node, index)
        end_round = pa.array(round_ + lifetime)
    return pa.table([pa.array(node), pa.array(round_), end_round, texts], schema=SUBSCRIPTION)


def _topic_texts(spec: TopicSubscriptions, nodes: Ints, node: Ints, index: Ints, seed: int) -> pa.Array:
    purpose = f"{_SUBSCRIPTION_PURPOSE}.topic"
    ranks = distinct_ranks(nodes, spec.per_node, spec.n_topics, spec.zipf, seed, purpose).ravel()
    exact = _each(ranks, lambda rank: canonical_text(topic_name(rank, spec.levels), None))
    if not spec.wildcards:
        return exact
    draw = [
        draws_numpy.uniform(seed, f"{_SUBSCRIPTION_PURPOSE}.{what}", node, index)
        for what in ("wildcard", "filter", "level")
    ]
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
    texts = []
    for row, rank in enumerate(ranks.tolist()):
        predicates = [Predicate("topic", "=", f"class{int(rank) + 1}")]
        for name, low, high in bounds:
            predicates += [Predicate(name, ">=", low[row]), Predicate(name, "<=", high[row])]
        texts.append(canonical(predicates))
    return pa.array(texts, pa.string())


def _classes_and_starts(spec: ContentSubscriptions, nodes: Ints, node: Ints, index: Ints, seed: int) -> list[Floats]:
    def starts(rows: Ints, attempt: int) -> list[Floats]:
        found = []
        for name in sorted(spec.attributes):
            purpose = f"{_SUBSCRIPTION_PURPOSE}.interval.{name}"
            share = draws_numpy.uniform(seed, purpose, node[rows], index[rows], attempt)
            found.append(_starts(spec.attributes[name], spec.selectivity, share))
        return found

    def draw(rows: Ints, attempt: int) -> list[Floats]:
        chance = draws_numpy.uniform(seed, f"{_SUBSCRIPTION_PURPOSE}.class", node[rows], index[rows], attempt)
        return [zipf(chance, spec.classes, spec.zipf).astype(np.float64), *starts(rows, attempt)]

    if any(not _is_whole(bounds, spec.selectivity) for bounds in spec.attributes.values()):
        return distinct_rows(node, spec.per_node, draw)
    ranks = distinct_ranks(nodes, spec.per_node, spec.classes, spec.zipf, seed, f"{_SUBSCRIPTION_PURPOSE}.class")
    return [ranks.ravel().astype(np.float64), *starts(np.arange(len(node)), 0)]


def _is_whole(bounds: AttributeRange, selectivity: float) -> bool:
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


def _quote_texts(spec: QuoteSubscriptions, node: Ints, index: Ints, seed: int) -> pa.Array:
    # The least price is near the stock's first price, and the least volume is near the median. So each of the two
    # predicates matches about half of the quotes.
    def draw(rows: Ints, attempt: int) -> list[Floats]:
        keys = (node[rows], index[rows], attempt)
        ranks = zipf(draws_numpy.uniform(seed, f"{_SUBSCRIPTION_PURPOSE}.symbol", *keys), spec.symbols, spec.zipf)
        factor = np.exp(0.02 * draws_numpy.normal(seed, f"{_SUBSCRIPTION_PURPOSE}.price", *keys))
        price = np.round(start_prices(seed, ranks) * factor, 2)
        volume = quote_volumes(0.25 + 0.5 * draws_numpy.uniform(seed, f"{_SUBSCRIPTION_PURPOSE}.volume", *keys))
        return [ranks.astype(np.float64), price, volume]

    texts, columns = list[str](), distinct_rows(node, spec.per_node, draw)
    for rank, price, volume in zip(*(column.tolist() for column in columns), strict=True):
        stock = Predicate("topic", "=", QUOTE_TOPIC), Predicate("symbol", "=", quote_symbol(int(rank)))
        texts.append(canonical((*stock, Predicate("price", ">", price), Predicate("volume", ">", volume))))
    return pa.array(texts, pa.string())


def generated_publications(spec: PublicationSpec, overlay: Overlay, seed: int) -> tuple[pa.Table, pa.Table]:
    """Returns drawn publications as tables `PUBLICATION` and `ATTRIBUTE`, ordered by round, then by publisher."""
    nodes = choose_nodes(spec.nodes, overlay, seed, f"{_PUBLICATION_PURPOSE}.nodes", (*PUBLICATIONS_PLACE, "nodes"))
    if isinstance(spec, BankPublications):
        if len(nodes) * spec.operations > MAX_PUBLICATIONS:
            message = (
                f"{len(nodes)} nodes with {spec.operations:,} operations each; allowed: {MAX_PUBLICATIONS:,} in all"
            )
            raise InputError(Problem((*PUBLICATIONS_PLACE, "operations"), message))
        return bank_operations(spec, nodes, seed)
    _refuse_flood(spec, len(nodes))
    node, round_, index = publication_slots(nodes, spec.rounds, spec.rate, seed)
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
        raise InputError(Problem((*PUBLICATIONS_PLACE, "rate"), message))


def _topics(spec: TopicPublications, seed: int, keys: tuple[Ints, Ints, Ints]) -> tuple[pa.Array, Columns]:
    ranks = zipf(draws_numpy.uniform(seed, f"{_PUBLICATION_PURPOSE}.topic", *keys), spec.n_topics, spec.zipf)
    return _each(ranks, lambda rank: topic_name(rank, spec.levels)), {}


def _contents(spec: ContentPublications, seed: int, keys: tuple[Ints, Ints, Ints]) -> tuple[pa.Array, Columns]:
    columns = {}
    for name, bounds in spec.attributes.items():
        low, high = bounds.low, bounds.high
        drawn = low + draws_numpy.uniform(seed, f"{_PUBLICATION_PURPOSE}.attribute.{name}", *keys) * (high - low)
        rounded = np.clip(np.round(drawn, decimals(low, high)), low, high) if high > low else drawn
        columns[name] = pa.array(rounded + 0.0)
    ranks = zipf(draws_numpy.uniform(seed, f"{_PUBLICATION_PURPOSE}.class", *keys), spec.classes, spec.zipf)
    return pc.binary_join_element_wise("class", pc.cast(pa.array(ranks + 1), pa.string()), ""), columns


def _quotes(spec: QuotePublications, seed: int, keys: tuple[Ints, Ints, Ints]) -> tuple[pa.Array, Columns]:
    ranks = zipf(draws_numpy.uniform(seed, f"{_PUBLICATION_PURPOSE}.symbol", *keys), spec.symbols, spec.zipf)
    steps = spec.volatility * draws_numpy.normal(seed, f"{_PUBLICATION_PURPOSE}.price", *keys)
    volumes = quote_volumes(draws_numpy.uniform(seed, f"{_PUBLICATION_PURPOSE}.volume", *keys)).astype(np.int64)
    # The price of each stock is a geometric random walk, clipped to the range of prices.
    logs = np.log(start_prices(seed, ranks)) + pd.Series(steps).groupby(ranks).cumsum().to_numpy()
    prices = np.round(np.exp(np.clip(logs, np.log(LEAST_PRICE), np.log(MOST_PRICE))), 2)
    columns = {"symbol": _each(ranks, quote_symbol), "price": pa.array(prices), "volume": pa.array(volumes)}
    return pa.repeat(pa.scalar(QUOTE_TOPIC, pa.string()), len(ranks)), columns


def _repeated(per_node: int) -> InputError:
    message = f"a node finds no {per_node} different subscriptions; give fewer, or more classes or symbols"
    return InputError(Problem((*SUBSCRIPTIONS_PLACE, "per_node"), message))


def decimals(low: float, high: float) -> int:
    """Returns the number of decimal places for about six significant digits of numbers from `low` to `high`."""
    return int(np.clip(6 - np.ceil(np.log10(high - low)), 0, 300))


@lru_cache(maxsize=8)
def _masses(size: int, exponent: float) -> Floats:
    # Summed from the least popular rank up, so that small weights are not lost in rounding.
    return np.cumsum(np.arange(size, 0, -1, dtype=np.float64) ** -exponent)


def topic_path(rank: int, levels: Sequence[int] | None) -> list[str]:
    """Returns the parts of the name of topic `rank`, one for each entry of `levels`, or one without levels."""
    digits: list[int] = []
    for size in reversed(levels or ()):
        digits.append(rank % size)
        rank //= size
    numbers = [digit + 1 for digit in reversed(digits)] or [rank + 1]
    return [f"topic{numbers[0]}", *map(str, numbers[1:])]


def topic_name(rank: int, levels: Sequence[int] | None) -> str:
    """Returns the name of topic `rank`, for example ``topic3``, or ``topic3/1/7`` if `levels` has three entries."""
    return "/".join(topic_path(rank, levels))


def zipf(uniform: Floats, size: int, exponent: float, first: Ints | int = 0) -> Ints:
    """Returns ranks from `first` to ``size - 1``, drawn with weights ``(rank + 1) ** -exponent``.

    `uniform` contains a number in [0, 1) for each draw; inversion maps this number to a rank. `first` is one rank for
    all draws, or an array with a rank for each draw.
    """
    masses = _masses(size, exponent)
    wanted = (1.0 - uniform) * masses[size - 1 - first]
    ranks: Ints = (size - 1 - np.searchsorted(masses, wanted, side="left")).astype(np.int64)
    return ranks


def distinct_ranks(nodes: Ints, per_node: int, size: int, exponent: float, seed: int, purpose: str) -> Ints:
    """Returns ranks for each node, shape (nodes, per_node), drawn by Zipf popularity without replacement.

    If `per_node` is at least a sixteenth of `size`, the ranks of a node are the first arrivals in an exponential race
    of all ranks. Otherwise ranks that a node draws repeatedly are drawn again. Both methods give the same distribution.

    Raises:
        InputError: `per_node` exceeds `size`.
    """
    if per_node > size:
        raise _repeated(per_node)
    if per_node > 1 and size <= _RACE_SHARE * per_node:
        chunk = max(1, _RACE_CELLS // size)
        parts = [
            _race(nodes[i : i + chunk], per_node, size, exponent, seed, purpose) for i in range(0, len(nodes), chunk)
        ]
        return np.concatenate(parts) if parts else np.empty((0, per_node), dtype=np.int64)
    return _draw_again(nodes, per_node, size, exponent, seed, purpose)


def _race(nodes: Ints, per_node: int, size: int, exponent: float, seed: int, purpose: str) -> Ints:
    ranks = np.arange(size, dtype=np.int64)
    arrival = (
        -np.log1p(-draws_numpy.uniform(seed, purpose + ".race", nodes[:, None], ranks)) * (ranks + 1.0) ** exponent
    )
    return np.argsort(arrival, axis=1, kind="stable")[:, :per_node].astype(np.int64)


def _draw_again(nodes: Ints, per_node: int, size: int, exponent: float, seed: int, purpose: str) -> Ints:
    # Repeated ranks are drawn again. Draws exclude the ranks below the lowest free rank of the node.
    ranks = np.zeros(len(nodes) * per_node, dtype=np.int64)
    owner = np.repeat(np.arange(len(nodes), dtype=np.int64), per_node)
    index = np.tile(np.arange(per_node, dtype=np.int64), len(nodes))
    taken = np.empty(0, dtype=np.int64)
    pending, attempt = np.arange(len(ranks)), 0
    while len(pending):
        of, rank = np.divmod(taken, size)  # `taken` has owner * size + rank, ascending
        free = np.bincount(of[rank == index_in_group(of)], minlength=len(nodes))[owner[pending]]
        drawn = zipf(
            draws_numpy.uniform(seed, purpose, nodes[owner[pending]], index[pending], attempt), size, exponent, free
        )
        code = owner[pending] * size + drawn
        _, first = np.unique(code, return_index=True)
        accepted = first[~np.isin(code[first], taken, assume_unique=True)]
        ranks[pending[accepted]] = drawn[accepted]
        taken = np.sort(np.concatenate([taken, code[accepted]]))
        pending, attempt = np.delete(pending, accepted), attempt + 1
    return ranks.reshape(len(nodes), per_node)


def distinct_rows(owner: Ints, per_node: int, draw: Callable[[Ints, int], list[Floats]]) -> list[Floats]:
    """Draws rows until no owner has two equal rows. Returns the columns of the rows.

    `owner` is the owner of each row, shape (rows,); each owner has `per_node` rows. `draw` takes the indexes of rows
    and the index of the attempt, and returns the columns of these rows.

    Raises:
        InputError: Repeated rows remain after 64 attempts.
    """
    columns = draw(np.arange(len(owner), dtype=np.int64), 0)
    for attempt in range(1, _ATTEMPTS):
        rows = pd.DataFrame(dict(enumerate((owner, *columns))))
        repeated = np.flatnonzero(rows.duplicated().to_numpy())
        if not len(repeated):
            return columns
        for column, again in zip(columns, draw(repeated, attempt), strict=True):
            column[repeated] = again
    raise _repeated(per_node)


def publication_slots(nodes: Ints, rounds: tuple[int, int], rate: float, seed: int) -> tuple[Ints, Ints, Ints]:
    """Returns three columns with a row for each publication: its node, its round, and its index.

    The index counts the publications of a node in a round. In each round of `rounds`, both ends included, a node
    publishes ``floor(rate)`` times, and once more with probability ``rate - floor(rate)``. Rows are in the order of
    (round, index of the node in `nodes`, index).
    """
    chunk = max(1, _SLOT_CELLS // max(len(nodes), 1))
    first, last = rounds
    parts = [_slots(nodes, np.arange(i, min(i + chunk, last + 1)), rate, seed) for i in range(first, last + 1, chunk)]
    node, round_, index = (np.concatenate(column) for column in zip(*parts, strict=True))
    return node, round_, index


def _slots(nodes: Ints, rounds: Ints, rate: float, seed: int) -> tuple[Ints, Ints, Ints]:
    whole = int(rate)
    counts = np.full((len(rounds), len(nodes)), whole, dtype=np.int64)
    if rate > whole:
        chance = draws_numpy.uniform(seed, "workload.publications.rate", nodes, rounds[:, None])
        counts += chance < rate - whole
    flat = counts.ravel()
    index = np.arange(flat.sum(), dtype=np.int64) - np.repeat(np.cumsum(flat) - flat, flat)
    return np.repeat(np.tile(nodes, len(rounds)), flat), np.repeat(np.repeat(rounds, len(nodes)), flat), index
