"""Recoveries of neighbours that overlap, each with as many crashes as δ: schedules in which something once went wrong.

N - A - B - C - D - S        N publishes, S subscribes
"""

from __future__ import annotations

from typing import Any

from support.one_job import Stores

from pipelines.scenario.load import RunConfig
from pipelines.testing import audited, rows, run_configs, scenario

NODES = "NABCDS"


def line(
    latencies: list[int], down: dict[str, tuple[int, int]], publications: dict[int, str], late: int | None = None,
    **settings: Any,
) -> dict[str, Any]:  # fmt: skip
    """A line with these latencies; N publishes in some rounds on some topics, and subscribes in round ``late``."""
    subscriptions = [{"at": "S", "topic": "t"}, {"at": "B", "topic": "v"}]
    subscriptions += [] if late is None else [{"at": "N", "round": late, "topic": "u"}]
    return scenario(
        protocol={"name": "delta", "delta": len(down), "detection_rounds": 3, **settings},
        overlay={"links": [[a, b, rounds] for a, b, rounds in zip(NODES, NODES[1:], latencies, strict=False)]},
        workload={
            "subscriptions": subscriptions,
            "publications": [{"at": "N", "round": round_, "topic": topic} for round_, topic in publications.items()],
        },
        faults=[{"kind": "crash", "node": node, "round": at, "until": up} for node, (at, up) in down.items()],
        time={"rounds": 300},
    )


RUNS = [
    # A asks C, as B is down; B comes back; then A hears that C is down too: B is the one to ask.
    line([1, 1, 1, 1, 1], {"A": (20, 25), "B": (20, 29), "C": (20, 33)}, {21: "t", 26: "t"}),
    # B's STATUS reaches N after N has taken it for failed: what N issues then must not overtake what it holds.
    line([1, 2, 2, 1, 1], {"B": (20, 26), "A": (21, 34), "C": (23, 36)}, dict.fromkeys((16, 23, 29, 30), "t")),
    # STATUS and PAR_SUB of B come to A in one round: it sends publications again, and the SUB between them.
    line([1, 2, 1, 1, 1], {"A": (20, 35)}, {22: "t", 32: "v", 37: "t"}, late=36, detector="visited"),
    # The SYN_REQUEST of N and the PAR_SUB of N reach A in one round. A asks N again, and answers B one round later.
    line([3, 6, 8, 1, 1], {"N": (20, 33), "A": (20, 30), "B": (20, 31)}, {80: "t"}, detection_rounds=8),
]


def delta_runs() -> dict[str, list[RunConfig]]:
    return {"order": run_configs(RUNS)}


def test_nothing_is_lost_within_delta(stores: Stores) -> None:
    store = stores("order")
    report = audited(store)
    assert [(f.name, f.shown, f.error) for f in report.findings if f.n_violations != 0] == []
    assert [(run.verdict, run.within_bound) for run in report.runs] == [("valid", True)] * len(RUNS)
    delivered = [run for (run,) in rows(store, "delivery", "run_id")]
    assert [delivered.count(run) for run in range(len(RUNS))] == [2, 4, 3, 1]
