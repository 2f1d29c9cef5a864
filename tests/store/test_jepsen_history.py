"""A run as a history of operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.engines.session import Session
from pipelines.errors import QueryError
from pipelines.sql.jepsen_history import jepsen_history
from pipelines.sql.query import StoreReader
from pipelines.testing import run_all, run_configs, scenario


@pytest.fixture(scope="module")
def reader(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> StoreReader:
    """A - B with a client each; X publishes, both deliver."""
    parts = scenario(
        protocol={"name": "ginger"},
        overlay={"links": [["A", "B"]], "clients": [{"name": "X", "at": "A"}, {"name": "Y", "at": "B"}]},
        workload={
            "subscriptions": [{"at": name, "topic": "t"} for name in ("X", "Y")],
            "publications": [
                {"at": "X", "round": 20, "topic": "t", "guarantee": "causal", "keys": ["k"], "content": {"price": 2}}
            ],
        },
    )
    store = run_all(run_configs([parts]), sail, tmp_path_factory.mktemp("operations"))
    return StoreReader(sail, store.root)


def test_publications_and_deliveries_are_operations(reader: StoreReader) -> None:
    delivered = {"source": 2, "source_name": "X", "seq": 2}
    published = {**delivered, "topic": "t", "guarantee": "causal", "keys": ["k"], "content": {"price": 2}}
    wanted = [(2, "publish", published, 20), (2, "deliver", delivered, 22), (3, "deliver", delivered, 23)]
    entries = list(jepsen_history(reader, 0))
    assert entries == [
        {"index": 2 * i + j, "type": kind, "process": process, "node": {2: "X", 3: "Y"}[process], "f": f}
        | {"value": value if kind == "ok" or f == "publish" else None, "time": round_ * 10_000_000}
        for i, (process, f, value, round_) in enumerate(wanted)
        for j, kind in enumerate(("invoke", "ok"))
    ]


def test_a_run_that_is_not_there(reader: StoreReader) -> None:
    with pytest.raises(QueryError, match="run 7 does not exist; the store has runs 0 to 0"):
        list(jepsen_history(reader, 7))


def test_crashes_and_recoveries_are_entries_in_the_order_of_rounds(sail: Session, tmp_path: Path) -> None:
    parts = scenario(
        protocol={"name": "forwarding"},
        overlay={"links": [["A", "B"]]},
        workload={
            "subscriptions": [{"at": "B", "topic": "t"}],
            "publications": [{"at": "A", "round": at, "topic": "t"} for at in (10, 20)],
        },
        faults=[{"kind": "crash", "node": "B", "round": 11, "until": 15}],
    )
    store = run_all(run_configs([parts]), sail, tmp_path)
    entries = list(jepsen_history(StoreReader(sail, store.root), 0))
    assert [entry["index"] for entry in entries] == [*range(len(entries))]
    told = [(entry["time"] // 10_000_000, entry["process"], entry["type"], entry["f"]) for entry in entries]
    assert [one for one in told if one[2] != "invoke"] == [
        (10, 0, "ok", "publish"),
        (11, "nemesis", "info", "crash"),
        (15, "nemesis", "info", "recovery"),
        (20, 0, "ok", "publish"),
        *[one for one in told if one[3] == "deliver" and one[2] == "ok"],
    ]
    assert [entry["value"] for entry in entries if entry["f"] == "crash"] == [{"node_id": 1, "node": "B"}]


def test_the_time_of_an_entry_is_in_rounds_of_its_run(sail: Session, tmp_path: Path) -> None:
    """Two runs of a grid over time.round_ms."""
    workload = {"publications": [{"at": "A", "round": 20, "topic": "t"}]}
    parts = [
        scenario(
            protocol={"name": "forwarding"}, overlay={"links": [["A", "B"]]}, workload=workload,
            time={"rounds": 60, "round_ms": round_ms},
        )
        for round_ms in (5.0, 50.0)
    ]  # fmt: skip
    reader = StoreReader(sail, run_all(run_configs(parts), sail, tmp_path).root)
    times = [{entry["time"] for entry in jepsen_history(reader, run_id)} for run_id in (0, 1)]
    assert times == [{100_000_000}, {1_000_000_000}]
