"""Protocol skipring leaves the same tables whether a job makes one round or many."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.engines import history

from pipelines.engines.session import Session
from pipelines.testing import run_all, run_configs, scenario

NAMES = [f"N{number}" for number in range(1, 10)]


@pytest.mark.parametrize("start", ["empty", "legitimate", "arbitrary"])
def test_rounds_of_a_job(sail: Session, tmp_path: Path, start: str) -> None:
    parts = scenario(
        protocol={"name": "skipring", "start": start, "start_until": 0, "start_publications": 2},
        overlay={"nodes": {"count": 10, "supervisors": 2}},
        workload={
            "subscriptions": [
                *({"at": name, "topic": "news"} for name in NAMES),
                {"at": "N10", "topic": "news", "round": 5},
                {"at": "N1", "topic": "sports", "until": 20},
            ],
            "publications": [{"at": "N2", "round": 15, "topic": "news"}],
        },
        faults=[{"kind": "crash", "node": "N3", "round": 18}],
        time={"rounds": 32},
    )
    stores = [run_all(run_configs([parts, parts]), sail, tmp_path, rounds_per_job=size) for size in (1, None)]
    one, many = map(history, stores)
    assert one == many
    assert {"state_configuration_change", "state_database_change", "delivery"} <= one.keys()
    assert all(one[f"state_{name}_change"] for name in ("configuration", "database"))
