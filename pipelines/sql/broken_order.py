"""Computes view ``broken_order``: for each run, the number of deliveries in a wrong order.

In SQL, the view would be a self-join of the deliveries of each subscriber. This module stores the delivery rounds of
each subscriber in a vector, and compares all pairs of publications with one matrix operation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame

BROKEN_ORDER: Final = "broken_order"
COLUMNS: Final = {
    "n_source_order_broken": "number of deliveries of a publication after the delivery of a later publication of the "
    "same source",
    "n_causal_order_broken": "number of deliveries of a publication after the delivery of a publication that causally "
    "depends on it",
    "n_total_order_broken": "number of pairs of publications that two subscribers got in different orders",
    "n_asked_causal_broken": "number of the deliveries in n_causal_order_broken whose later publication requests "
    "causal or total order and shares a topic and a key item with the earlier one; null: no publication requests an "
    "order",
    "n_asked_total_broken": "number of the pairs in n_total_order_broken that share a topic and a key item, and at "
    "least one of which requests total order; null: no publication requests total order",
}
_FORM = pa.schema([(name, pa.int64()) for name in ("run_id", *COLUMNS)])
_DELIVERIES = "select run_id, subscriber, source, source_seq, delivery_round as round from first_delivery"
_PUBLICATIONS = "select run_id, source, source_seq, issued_round, topic, guarantee, keys from publication"
_CAUSAL, _TOTAL = ("causal", "total"), ("total",)


def broken_orders(ask: Callable[[str], DataFrame]) -> pa.Table:
    """Counts the deliveries and the pairs of publications in a wrong order. ``ask`` runs a SQL query over a store.

    Returns:
        One row per run with deliveries: ``run_id`` and `COLUMNS`.
    """
    delivered, published = _by_run(ask(_DELIVERIES)), _by_run(ask(_PUBLICATIONS))
    rows = [_counted(run_id, of, published.get(run_id, [])) for run_id, of in delivered.items()]
    return pa.Table.from_pylist(rows, _FORM)


def _by_run(frame: DataFrame) -> Mapping[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in frame.toArrow().to_pylist():
        found[row["run_id"]].append(row)
    return found


def _counted(run_id: int, delivered: list[dict[str, Any]], published: list[dict[str, Any]]) -> dict[str, int | None]:
    """Returns the row of a run. Index i of a vector or matrix stands for the i-th publication of the run.

    The element in row i and column j of a matrix is the relation of publications i and j.
    """
    calls = {(row["source"], row["source_seq"]): row for row in published}
    keys = sorted({*calls, *map(_key, delivered)})
    index = {key: number for number, key in enumerate(keys)}
    rounds: dict[int, npt.NDArray[np.float64]] = defaultdict(lambda: np.full(len(keys), np.nan))
    for row in delivered:
        rounds[row["subscriber"]][index[_key(row)]] = row["round"]
    source, seq = (np.array(of) for of in zip(*keys, strict=True))
    issued = np.array([calls[key]["issued_round"] if key in calls else np.nan for key in keys], dtype=float)
    never = np.full(len(keys), np.nan)
    had = np.stack([rounds.get(one, never) for one in source], axis=1)
    is_source = (source[:, None] == source[None, :]) & (seq[:, None] < seq[None, :])
    is_cause = is_source | (had < issued[None, :])  # the publisher of j had issued or received i before it issued j
    shares = np.zeros(is_source.shape, dtype=bool)  # i and j have a common topic and a common key item
    for indexes in _sharing(keys, calls):
        shares[np.ix_(indexes, indexes)] = True
    asks = [calls[key]["guarantee"] if key in calls else None for key in keys]
    wants_causal, wants_total = (np.array([one in of for one in asks]) for of in (_CAUSAL, _TOTAL))
    is_asked, is_total = shares & wants_causal[None, :], shares & (wants_total[:, None] | wants_total[None, :])
    n = dict.fromkeys(COLUMNS, 0)
    was_later = np.zeros(is_source.shape, dtype=bool)
    for of in rounds.values():
        is_later = of[:, None] > of[None, :]
        was_later |= is_later
        n["n_source_order_broken"] += int((is_later & is_source).any(1).sum())
        n["n_causal_order_broken"] += int((is_later & is_cause).any(1).sum())
        n["n_asked_causal_broken"] += int((is_later & is_cause & is_asked).any(1).sum())
    disputed = np.triu(was_later & was_later.T)
    n["n_total_order_broken"] = int(disputed.sum())
    n["n_asked_total_broken"] = int((disputed & is_total).sum())
    asked = {row["guarantee"] for row in published}
    unasked = [name for name, of in (("n_asked_causal_broken", _CAUSAL), ("n_asked_total_broken", _TOTAL))
               if not asked & {*of}]  # fmt: skip
    return {"run_id": run_id, **n, **dict.fromkeys(unasked)}


def _key(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["source"], row["source_seq"]


def _sharing(
    keys: list[tuple[int, int]], calls: Mapping[tuple[int, int], Mapping[str, Any]]
) -> Iterable[list[int]]:  # fmt: skip
    """Returns groups of publications with a common topic and a common key item, as lists of indexes in ``keys``."""
    found: dict[tuple[str | None, str], list[int]] = {}
    for index, key in enumerate(keys):
        for item in (calls[key]["keys"] or ()) if key in calls else ():
            found.setdefault((calls[key]["topic"], item), []).append(index)
    return found.values()
