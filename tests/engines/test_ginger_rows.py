"""Protocol ``ginger`` gives the same rows on every engine, also when the root fails under messages in total order.

C1 - B1 - B0 - B2 - C2       C0 at B0
"""

from __future__ import annotations

from pathlib import Path

from engine_support import history
from support import run_all, run_configs, scenario

from pipelines.session import Session

CLIENTS = {"C0": "B0", "C1": "B1", "C2": "B2"}
ROOT_FAILS = scenario(
    protocol={"name": "ginger", "timer_rounds": 6, "detection_rounds": 2},
    overlay={
        "links": [["B0", "B1"], ["B0", "B2"]],
        "clients": [{"name": name, "at": at} for name, at in CLIENTS.items()],
    },
    workload={
        "subscriptions": [{"at": name, "topic": "t"} for name in CLIENTS],
        "publications": [
            {"at": name, "round": 16, "topic": "t", "guarantee": "total", "keys": ["k"]} for name in ("C1", "C2")
        ],
    },
    faults=[{"kind": "crash", "node": "B0", "round": 18}],
    time={"rounds": 34},
)


def test_spark_and_sail_run_ginger_alike(sail: Session, spark: Session, tmp_path: Path) -> None:
    on_sail = history(run_all(run_configs([ROOT_FAILS]), sail, tmp_path))
    assert history(run_all(run_configs([ROOT_FAILS]), spark, tmp_path)) == on_sail
    kinds = {row[2] for row in on_sail["message"]}
    assert {"TotalAck", "TotalProcessed", "RootElection", "LostMessages"} <= kinds
