"""Node programs match publications as view ``matching`` does, which dataflow steps use."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from pipelines.contract.predicate import value_columns
from pipelines.engines.session import Session
from pipelines.inputs.workload.calls import to_json
from pipelines.rounds.schedule import matches
from pipelines.tables import PREDICATE
from udfs.nodes.matching import COMPARISON, Matcher, values_of

N_RUNS = 40
WHOLES = (0, 3, -3, 2**53, 2**53 + 1, 2**63 - 1)
NUMBERS = (0.5, 3.0, 1e300, -0.0)
TEXTS = ("", "a", "ab", "b/c", "é", "Z", "\U0001f600")
FILTERS = ("a/#", "+/c", "#", "b/+")
ORDERS = ("=", "!=", "<", "<=", ">", ">=")
WORDS = ("prefix", "suffix", "contains", "filter")


def value(draw: random.Random) -> tuple[float | None, int | None, str | None]:
    return value_columns(draw.choice(draw.choice((WHOLES, NUMBERS, TEXTS))))


def comparison(draw: random.Random, subscription: int) -> tuple[Any, ...]:
    op = draw.choice((*ORDERS, *ORDERS, *WORDS))
    compared = value(draw)
    if op in WORDS:
        compared = None, None, draw.choice(FILTERS if op == "filter" else TEXTS)
    return subscription, draw.choice("xyz"), op, *compared


def test_the_same_subscriptions_are_found(sail: Session) -> None:
    predicates, attributes = [], []
    for run in range(N_RUNS):
        draw = random.Random(run)
        predicates += [
            (run, *one) for number in range(12)
            for one in dict.fromkeys(comparison(draw, number) for _ in range(draw.choice((1, 1, 2, 3))))
        ]  # fmt: skip
        attributes += [
            (run, 5, seq, name, *value(draw)) for seq in range(20) for name in draw.sample("xyz", draw.randint(1, 3))
        ]
    names = ["run_id", *COMPARISON]
    types = {"number": pa.float64(), "attribute": pa.string(), "op": pa.string(), "text": pa.string()}
    columns = zip(names, zip(*predicates, strict=True), strict=True)
    predicate = pa.table({name: pa.array(column, types.get(name, pa.int64())) for name, column in columns})
    assert PREDICATE.columns == names
    contents: dict[tuple[int, int], dict[str, Any]] = {}
    for run, _, seq, name, number, whole, text in attributes:
        contents.setdefault((run, seq), {})[name] = text if number is None else number if whole is None else whole
    runs, numbers = zip(*contents, strict=True)
    publication = pa.table({
        "run_id": runs, "source": [5] * len(runs), "source_seq": numbers,
        "topic": pa.nulls(len(contents), pa.string()), "content": [to_json(content) for content in contents.values()],
    })  # fmt: skip
    joined = matches(sail.spark, publication, predicate).to_pylist()
    expected = {(row["run_id"], row["source_seq"]): tuple(row["matches"]) for row in joined}
    found = {}
    rows = [tuple(row.values()) for row in predicate.to_pylist()]
    for run in range(N_RUNS):
        matcher = Matcher(row[1:] for row in rows if row[0] == run)
        for (_, seq), values in values_of(row[1:] for row in attributes if row[0] == run).items():
            if of := matcher.matches(values):
                found[run, seq] = of
    assert found == expected
    assert len(found) > 10 * N_RUNS
