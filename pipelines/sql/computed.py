"""Views that Python functions compute: promises of protocols, parameters of runs, state sizes, and broken orders.

The promises of a protocol are its statements about confirmations and about the order of publications.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame

from pipelines.contract.nodes import NODE_STATE
from pipelines.contract.protocol import Ask, ComputedView
from pipelines.contract.round import STATE, StateRelation
from pipelines.engines.frames import json_object, union
from pipelines.protocols import PROTOCOLS
from pipelines.sql.views import PROTOCOL_COLUMNS

PROMISES = ("name", "confirms", "confirms_delivery", "keeps_source_order")
KINDS = ("maintenance", "application", "acknowledgement", "recovery")


def promises() -> pa.Table:
    """Returns one row per installed protocol: its name, its promises, and its message types for each of `KINDS`."""
    rows = [{name: getattr(spec, name) for name in (*PROMISES, *KINDS)} for spec in PROTOCOLS.values()]
    types = {
        "name": pa.string(),
        **dict.fromkeys(PROMISES[1:], pa.bool_()),
        **dict.fromkeys(KINDS, pa.list_(pa.string())),
    }
    return pa.Table.from_pylist(rows, pa.schema(list(types.items())))


_RUN_ID = "run_id"
_SIMPLE = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}


def column_name(path: str) -> str:
    """Returns the column name of a parameter: its path in lower case, with ``_`` instead of invalid characters."""
    return re.sub(r"\W", "_", path.lower())


def parameter_rows(runs: pa.Table) -> pa.Table:
    """Returns the parameters of runs as columns.

    ``runs`` has one row per run: ``run_id``, and ``parameters``, a JSON object from path to value.

    Returns:
        One row for each run: ``run_id``, then a column for each path, in the order of paths. If all values of a column
        are integers, numbers, booleans or strings, the column has this type; otherwise it contains JSON. Null means
        that the run does not have the parameter.
    """
    parameters = runs["parameters"].to_pylist()
    parsed: dict[str, Mapping[str, Any]] = {text: json.loads(text) for text in set(parameters)}
    given = [parsed[text] for text in parameters]
    columns: dict[str, pa.Array] = {_RUN_ID: runs[_RUN_ID].cast(pa.int64())}
    for name, path in _paths(parsed.values()).items():
        columns[name] = _column([values.get(path) for values in given])
    return pa.table(columns)


def parameter_paths(parameters: Sequence[str]) -> dict[str, str]:
    """Maps each column of view ``parameter``, except ``run_id``, to the path of its parameter."""
    return _paths(json.loads(text) for text in set(parameters))


def _paths(parsed: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    columns = {_RUN_ID: ""}
    for path in sorted({path for values in parsed for path in values}):
        name = column_name(path)
        while name in columns:  # two paths that differ only in invalid characters have one column name
            name += "_"
        columns[name] = path
    return {name: path for name, path in columns.items() if path}


def _column(values: Sequence[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        kinds = {float}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind in _SIMPLE:
        return pa.array([None if value is None else kind(value) for value in values], _SIMPLE[kind])
    texts = [None if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False) for value in values]
    return pa.array(texts, pa.string())


HELD_STATE: Final = "held_state"
HELD_STATE_COLUMNS: Final = {
    "table_name": "name of the state table, without the prefix state_",
    "n_rows": "number of rows of the run in the table",
    "n_bytes": "number of bytes of these rows as JSON, without run_id and nulls",
    "is_durable": "whether the rows survive a crash of their node",
}
_HELD_STATE_SCHEMA = pa.schema([
    ("run_id", pa.int64()), ("table_name", pa.string()), ("n_rows", pa.int64()), ("n_bytes", pa.int64()),
    ("is_durable", pa.bool_()),
])  # fmt: skip


def held_rows(states: Sequence[StateRelation], ask: Ask) -> pa.Table:
    """Counts the rows and bytes of ``states``, the state tables of a protocol, except ``state_node``.

    ``ask`` answers SQL over the runs of the protocol.

    Returns:
        One row per run and non-empty table: ``run_id`` and `HELD_STATE_COLUMNS`.
    """
    columns = {state.table.name: state.table.columns for state in states}
    durable = {state.table.name: state.is_durable for state in states if state.table.name != NODE_STATE}
    durable |= {state.table.name: durable[state.derived_from] for state in states if state.derived_from is not None}
    if not durable:
        return _HELD_STATE_SCHEMA.empty_table()
    values = {name: json_object(column for column in columns[name] if column != "run_id") for name in durable}
    frames = [
        ask(
            f"select run_id, '{name}' as table_name, count(1) as n_rows, sum(octet_length({values[name]})) as n_bytes, "  # noqa: S608 - declared names
            f"{str(is_durable).lower()} as is_durable from {STATE}{name} group by run_id"
        )
        for name, is_durable in durable.items()
    ]
    return union(frames).toArrow().cast(_HELD_STATE_SCHEMA)


BROKEN_ORDER: Final = "broken_order"
BROKEN_ORDER_COLUMNS: Final = {
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
_BROKEN_ORDER_SCHEMA = pa.schema([(name, pa.int64()) for name in ("run_id", *BROKEN_ORDER_COLUMNS)])
_DELIVERIES = "select run_id, subscriber, source, source_seq, delivery_round as round from first_delivery"
_PUBLICATIONS = "select run_id, source, source_seq, issued_round, topic, guarantee, keys from publication"
_CAUSAL, _TOTAL = ("causal", "total"), ("total",)


def broken_orders(ask: Ask) -> pa.Table:
    """Counts the deliveries and the pairs of publications in a wrong order. ``ask`` runs a SQL query over a store.

    In SQL, view ``broken_order`` would be a self-join of the deliveries of each subscriber. This function stores the
    delivery rounds of each subscriber in a vector, and compares all pairs of publications with one matrix operation.

    Returns:
        One row per run with deliveries: ``run_id`` and `BROKEN_ORDER_COLUMNS`.
    """
    delivered, published = _by_run(ask(_DELIVERIES)), _by_run(ask(_PUBLICATIONS))
    rows = [_counted(run_id, of, published.get(run_id, [])) for run_id, of in delivered.items()]
    return pa.Table.from_pylist(rows, _BROKEN_ORDER_SCHEMA)


def _by_run(frame: DataFrame) -> Mapping[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in frame.toArrow().to_pylist():
        found[row["run_id"]].append(row)
    return found


def _counted(run_id: int, delivered: list[dict[str, Any]], published: list[dict[str, Any]]) -> dict[str, int | None]:
    """Returns the row of a run.

    Index i of a vector or matrix stands for the i-th publication of the run.
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
    n = dict.fromkeys(BROKEN_ORDER_COLUMNS, 0)
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


PARAMETER: Final = "parameter"
COMPUTED: Final[Mapping[str, ComputedView]] = {
    PARAMETER: ComputedView(
        "one row per run, one column per parameter; column protocol_delta contains parameter protocol.delta",
        lambda ask: parameter_rows(ask("select run_id, parameters from run").toArrow()),
    ),
    "protocol": ComputedView(
        "the installed protocols, with their promises about confirmations and the order of publications",
        lambda _: promises(), PROTOCOL_COLUMNS,
    ),
    BROKEN_ORDER: ComputedView(
        "numbers of deliveries in a wrong order, even if the protocol does not promise the order; one row per run with "
        "deliveries", broken_orders, BROKEN_ORDER_COLUMNS,
    ),
    HELD_STATE: ComputedView(
        "size of the protocols' state at the end of a run; one row per run and non-empty state table",
        lambda _: _HELD_STATE_SCHEMA.empty_table(), HELD_STATE_COLUMNS,
    ),
}  # fmt: skip
"""The computed views that every store has; each protocol of a store adds its rows to `HELD_STATE`."""
