"""Parameters of runs as columns."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from pipelines.sql.computed import column_name, parameter_rows


def rows(*parameters: dict[str, Any]) -> pa.Table:
    texts = pa.array([json.dumps(given) for given in parameters], pa.string())
    return parameter_rows(pa.table({"run_id": range(len(parameters)), "parameters": texts}))


def test_a_column_has_the_type_of_its_values() -> None:
    found = rows(
        {"b.c": 1, "x": 1, "on": True, "name": "a", "mixed": 1, "tree": None},
        {"b.c": 2, "x": 0.5, "on": False, "name": "b", "mixed": "1", "tree": "minimum", "late": 2**40},
    )
    assert found.column_names == ["run_id", "b_c", "late", "mixed", "name", "on", "tree", "x"]
    assert found.to_pylist() == [
        {"run_id": 0, "b_c": 1, "late": None, "mixed": "1", "name": "a", "on": True, "tree": None, "x": 1.0},
        {"run_id": 1, "b_c": 2, "late": 2**40, "mixed": '"1"', "name": "b", "on": False, "tree": "minimum", "x": 0.5},
    ]
    assert found.schema.field("x").type == pa.float64()


def test_parts_of_a_scenario_are_json() -> None:
    found = rows({"overlay": {"generate": {"kind": "line", "nodes": 3}}}, {"overlay": {"links": [["A", "B"]]}})
    assert found["overlay"].to_pylist() == ['{"generate": {"kind": "line", "nodes": 3}}', '{"links": [["A", "B"]]}']


def test_every_path_has_a_column_of_its_own() -> None:
    assert column_name("faults.0.generate.Count") == "faults_0_generate_count"
    assert rows({"a.b_c": 1, "a_b.c": 2, "run_id": 3}).to_pylist() == [
        {"run_id": 0, "a_b_c": 1, "a_b_c_": 2, "run_id_": 3}
    ]


def test_no_runs_are_a_table_without_rows() -> None:
    assert rows().to_pylist() == []
