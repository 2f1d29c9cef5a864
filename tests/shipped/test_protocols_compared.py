"""The tables of the comparison of six protocols, from rows of view ``comparison``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from pipelines.notebooks import protocols_compared as study
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.load import find_scenario


def row(faults: str, protocol: str, **others: Any) -> dict[str, Any]:
    """Returns what tables read of a run in which all is well."""
    return {
        "faults": faults, "overlay": "line, 12", "protocol": protocol, "wanted_ratio": 1.0, "n_deliveries": 10,
        "n_duplicates": 0, "messages_per_delivery": 3.0, "application_per_delivery": 2.0, "bytes_per_delivery": 90.0,
        "held_rows_per_node": 7.0, "durable_bytes_per_node": 0.0, "latency_ms_p95": 40.0, "settling_ms": None,
        "n_source_order_broken": 0, "n_causal_order_broken": 0, "n_total_order_broken": 0,
        "n_asked_causal_broken": 0, "n_asked_total_broken": None, **others,
    }  # fmt: skip


FOUND = pd.DataFrame([
    row("no fault", "ginger", durable_bytes_per_node=300.0),
    row("no fault", "ginger", overlay="Abilene", messages_per_delivery=5.0),
    row("no fault", "forwarding", n_source_order_broken=2),
    row("loss 5%", "forwarding", wanted_ratio=0.5, settling_ms=100.0, n_duplicates=1, n_asked_total_broken=1),
])  # fmt: skip


def test_a_table_has_a_row_for_each_kind_of_faults_and_a_column_for_each_protocol() -> None:
    found = study.tables(FOUND)
    assert list(found["delivered"].index) == ["no fault", "loss 5%"]
    assert list(found["delivered"].columns) == ["forwarding", "ginger"]
    assert found["delivered"].forwarding.to_list() == ["100", "50"]
    assert found["delivered"].ginger.to_list() == ["100", "-"]
    assert found["messages"].ginger["no fault"] == "4 [3, 5]"
    assert found["duplicates"].forwarding.to_list() == ["0", "10"]
    assert found["source_order"].forwarding.to_list() == ["100", "0"]
    assert found["asked_order"].forwarding.to_list() == ["0", "100"]
    assert found["settling"].forwarding.to_list() == ["-", "100"]
    assert found["stored"].ginger["no fault"] == "150 [0, 300]"
    assert [found[name].forwarding["loss 5%"] for name in ("bytes", "held", "stored")] == ["90", "7", "0"]


def test_costs_are_told_by_overlay_where_nothing_fails() -> None:
    found = study.tables(FOUND)["messages_by_overlay"]
    assert found.ginger.to_dict() == {"line, 12": "3", "Abilene": "5"}
    assert study.markdown(found).splitlines()[0] == "| overlay | forwarding | ginger |"
    assert "messages_by_overlay" not in study.tables(FOUND[FOUND.faults != "no fault"])


def test_every_scenario_is_one_of_the_study() -> None:
    folder = find_scenario(Path("compared/no_fault")).parent
    assert {path.stem for path in folder.glob("*.yaml")} == {*study.SCENARIOS}
    protocols = {
        one["name"]
        for path in folder.glob("*.yaml")
        for one in yaml.safe_load(path.read_text("utf-8"))["runs"]["grid"]["protocol"]
    }
    assert protocols == {*study.PROTOCOLS} <= {*PROTOCOLS}
