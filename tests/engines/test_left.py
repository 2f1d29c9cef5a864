"""What rounds leave behind until the next commit, on Sail: as tables where it is worked out here, else as frames."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, types as T
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.contract.in_flight import in_flight_schema
from pipelines.engines.materialise.base import Materialiser, Relation
from pipelines.engines.materialise.choose import materialiser_for
from pipelines.engines.session import Session
from pipelines.rounds.left import Left, RoundRows

BODY = "case when kind = 'PUB' then concat('to ', dst) end"
_SCHEMA = in_flight_schema(T.StructType())


@pytest.fixture
def materialiser(sail: Session) -> Iterator[Materialiser]:
    with closing(materialiser_for(sail)) as found:
        yield found


def messages(first: int, n_rows: int, round_: int) -> pa.Table:
    """Returns messages that are due in a round; ids count from the first."""
    given = {
        "run_id": [0] * n_rows, "message_id": range(first, first + n_rows), "kind": ["PUB"] * n_rows,
        "src": [1] * n_rows, "dst": [2] * n_rows, "sent_round": [round_ - 1] * n_rows, "due_round": [round_] * n_rows,
        "remaining_rounds": [0] * n_rows, "source": [1] * n_rows, "source_seq": [1] * n_rows,
        "fate": pa.nulls(n_rows, pa.string()),
    }  # fmt: skip
    return pa.table({name: given[name] for name in _SCHEMA.names})


def inbox(materialiser: Materialiser, rows: pa.Table) -> Relation:
    return materialiser.load("inbox", rows, from_arrow_schema(rows.schema))


def fates(materialiser: Materialiser, *numbers: int) -> DataFrame:
    rows = pa.table({"run_id": [0] * len(numbers), "message_id": numbers, "fate": ["duplicate"] * len(numbers)})
    return materialiser.load("fate", rows, from_arrow_schema(rows.schema)).frame


def test_rows_that_are_here_wait_as_tables_and_what_they_read_is_freed(materialiser: Materialiser) -> None:
    left = Left(materialiser, BODY)
    relation = inbox(materialiser, messages(0, 3, 5))
    released: list[str] = []
    held = Relation(relation.frame, lambda: released.append("held"))
    kept = Relation(relation.frame, lambda: released.append("kept"))
    left.add(RoundRows(relation.frame, fates(materialiser, 1), {}, [held], [kept]))
    assert sorted(released) == ["held", "kept"]
    written = left.written()
    assert not any(rows.frames for rows in written.values())
    shown = [(row["message_id"], row["fate"], row["body"]) for row in written["message"].tables[0].to_pylist()]
    assert shown == [(0, "delivered", "to 2"), (1, "duplicate", "to 2"), (2, "delivered", "to 2")]
    counted = [(row["round"], row["fate"], row["n_messages"]) for row in written["round_metric"].tables[0].to_pylist()]
    assert sorted(counted) == [(5, "delivered", 2), (5, "duplicate", 1)]
    assert left.n_bytes > 0


def test_many_rows_stay_plans_and_what_they_read_is_held(
    materialiser: Materialiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds of few rows and of many end up in the same tables."""
    left = Left(materialiser, BODY)
    released: list[int] = []
    for round_, n_rows in ((5, 4), (6, 40), (7, 4)):
        monkeypatch.setenv("ROUNDTABLE_DRIVER_ROWS", "0" if n_rows == 40 else "100")
        relation = inbox(materialiser, messages(100 * round_, n_rows, round_))
        held = Relation(relation.frame, lambda round_=round_: released.append(round_))
        left.add(RoundRows(relation.frame, None, {}, [held]))
    assert released == [5, 7]
    assert left.n_rounds == 3
    written = left.written()
    assert [table.num_rows for table in written["message"].tables] == [4, 4]
    for name, columns, n_rows in (("message", ["message_id"], 40), ("round_metric", ["round", "n_messages"], 1)):
        (frame,) = written[name].frames
        assert len(frame.select(columns).collect()) == n_rows
    (counted,) = written["round_metric"].frames
    assert [(row["round"], row["n_messages"]) for row in counted.collect()] == [(6, 40)]
    left.clear()
    assert released == [5, 7, 6]
    assert (left.n_rounds, left.n_bytes, left.written()) == (0, 0, {})


def test_steps_of_calls_wait_as_relations(materialiser: Materialiser) -> None:
    """The call log takes them with the next commit, as a table."""
    left = Left(materialiser, BODY)
    for round_ in (3, 4):
        rows = pa.table({"run_id": [0], "source": [1], "source_seq": [1], "round": [round_], "event": ["issued"]})
        frame = materialiser.load("event", rows, from_arrow_schema(rows.schema)).frame
        left.add(RoundRows(None, None, {"call_event": frame}))
    assert left.written() == {}
    events = left.call_events()
    assert events is not None
    assert sorted(events["round"].to_pylist()) == [3, 4]
