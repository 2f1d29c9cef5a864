"""Inputs and history rows of blocks: rows of all runs as lists of each run, and back."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, strategies as st

from pipelines.rounds.blocks import exploded, list_column, with_fate, without

_ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.text(max_size=3)), max_size=20)


def _table(rows: list[tuple[int, int, str]]) -> pa.Table:
    names, kinds = ("run_id", "node_id", "text"), (pa.int64(), pa.int64(), pa.string())
    columns = zip(*rows, strict=True) if rows else [()] * 3
    return pa.table({name: pa.array(column, kind) for name, kind, column in zip(names, kinds, columns, strict=True)})


@given(_ROWS)
def test_rows_of_runs_come_back(rows: list[tuple[int, int, str]]) -> None:
    run = pa.array(range(6), pa.int64())
    lists = list_column(_table(rows), ["text", "node_id"], run)
    assert lists.to_pylist() == [
        [{"text": text, "node_id": node} for of, node, text in rows if of == one] for one in range(6)
    ]
    found = exploded(pa.table({"run_id": run, "rows": lists}), "rows").select(["run_id", "node_id", "text"])
    assert found.to_pylist() == _table(sorted(rows, key=lambda row: row[0])).to_pylist()


def test_no_run_has_rows_of_what_there_is_not() -> None:
    assert list_column(None, ["node_id"], pa.array([1, 2])).to_pylist() == [None, None]


@given(_ROWS, st.sets(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=8))
def test_rows_of_some_nodes_go_and_the_others_keep_their_order(
    rows: list[tuple[int, int, str]], nodes: set[tuple[int, int]]
) -> None:
    gone = _table([(*node, "") for node in sorted(nodes)]).select(["run_id", "node_id"])
    found = without(_table(rows), gone).to_pylist()
    assert found == _table([row for row in rows if row[:2] not in nodes]).to_pylist()


def test_messages_without_a_fate_get_one() -> None:
    whole = {name: pa.array([1, 2]) for name in (
        "run_id", "message_id", "src", "dst", "sent_round", "due_round", "source", "source_seq",
    )}  # fmt: skip
    texts = {"kind": pa.array(["A", "B"]), "fate": pa.array([None, "lost_link"]), "body": pa.array(["{}", None])}
    assert with_fate(pa.table(whole | texts), "in_flight")["fate"].to_pylist() == ["in_flight", "lost_link"]
