"""Protocol ``ginger`` gives the same rows on every engine and beside any other runs, also when the root fails.

C1 - B1 - B0 - B2 - C2       C0 at B0
"""

from __future__ import annotations

from pathlib import Path

from support.engines import history, spread

from pipelines.engines.session import Session
from pipelines.testing import run_all, run_configs, scenario

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
    with spread(spark, 3) as session:
        assert history(run_all(run_configs([ROOT_FAILS]), session, tmp_path)) == on_sail
    kinds = {row[2] for row in on_sail["message"]}
    assert {"TotalAck", "TotalProcessed", "RootElection", "LostMessages"} <= kinds


def test_rounds_of_a_job(sail: Session, tmp_path: Path) -> None:
    """A broker joins, one is back, links are slower for a while; with small buffers publishers repeat messages."""
    overlay = {**ROOT_FAILS["overlay"], "links": [*ROOT_FAILS["overlay"]["links"], ["B2", "B3"]]}
    workload = {**ROOT_FAILS["workload"], "joins": [{"node": "B3", "to": "B2", "round": 17}]}
    faults = [
        {"kind": "crash", "node": "B0", "round": 18, "until": 30}, {"kind": "crash", "node": "B1", "round": 60},
        {"kind": "delay", "round": 40, "until": 50, "rate": 0.3, "rounds": [1, 2]},
    ]  # fmt: skip
    protocol = {**ROOT_FAILS["protocol"], "buffer_size": 1, "collect_every": 1}
    parts = {**ROOT_FAILS, "overlay": overlay, "workload": workload, "faults": faults, "protocol": protocol}
    parts["time"] = {"rounds": 90}
    stores = [run_all(run_configs([parts, ROOT_FAILS]), sail, tmp_path, rounds_per_job=size) for size in (1, None)]
    one, many = map(history, stores)
    assert one == many
    assert {"RECOVERING", "JOINING", "OPERATIONAL"} <= {row[-1] for row in one["node_status"]}


def test_other_runs_of_the_job_change_nothing(sail: Session, tmp_path: Path) -> None:
    """Whether a node crashes, or a broker joins, in other runs is nothing that the rows of a run tell."""
    quiet = {**ROOT_FAILS, "faults": [], "time": {"rounds": 100}}
    fails = {**quiet, "faults": ROOT_FAILS["faults"]}
    overlay = {**quiet["overlay"], "links": [*quiet["overlay"]["links"], ["B2", "B3"]]}
    joins = [{"node": "B3", "to": "B2", "round": 17}]
    grows = {**quiet, "overlay": overlay, "workload": {**quiet["workload"], "joins": joins}}
    runs = run_configs([quiet, fails, grows])
    together = history(run_all(runs, sail, tmp_path))
    for run in runs:
        alone = history(run_all([run], sail, tmp_path))
        assert {name: [row for row in of if row[0] == run.run_id] for name, of in together.items()} == alone
    assert {row[0] for row in together["state_metadata_buffer"]} == {1, 2}
    assert {(row[0], row[-1]) for row in together["node_status"]} == {(2, "JOINING"), (2, "OPERATIONAL")}


def test_a_call_that_is_confirmed_twice_has_one_row(sail: Session, tmp_path: Path) -> None:
    """The second copy of `Subscribed` confirms the subscription again, in the block of the first copy or later."""
    overlay = {
        "links": [["B0", "B1"], ["B1", "B2"]], "clients": [{"name": "C1", "at": "B0"}, {"name": "C2", "at": "B2"}],
    }  # fmt: skip
    twice = {
        **ROOT_FAILS,
        "overlay": overlay,
        "workload": {"subscriptions": [{"at": name, "topic": "t"} for name in ("C1", "C2")]},
        "faults": [{"kind": "duplicate", "rate": 1.0, "kinds": ["Subscribed"], "after": [5, 5]}],
    }
    usual, *others = (
        history(run_all(run_configs([twice]), sail, tmp_path, commit_every=every))["subscription"]
        for every in (200, 1, 4)
    )
    assert others == [usual, usual]
    assert len(usual) == 2
