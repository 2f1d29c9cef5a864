"""Protocols delta and ginger under the same schedules: the same rows of calls and crashes, and what is compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest

import pipelines as rt
from pipelines.contract.run_inputs import Inputs
from pipelines.engines.session import Session
from pipelines.experiment.build import build_inputs
from pipelines.experiment.prepared import prepare
from pipelines.notebooks import delta_and_ginger as study

SMALL = ("workload.publications.generate.operations=2", "faults.0.generate.rounds=[32, 34]", "runs.seeds=[2]")
FIXED = {
    "node": "*",
    "link": "*",
    "fault_event": "*",
    "predicate": "*",
    "subscription": "run_id, subscription_id, subscriber, predicate, issued_round",
    "publication": "run_id, source, source_seq, issued_round, topic, content, guarantee, keys",
}
"""Columns that no protocol decides."""


def inputs(protocol: str) -> Inputs:
    return build_inputs(prepare(Path(study.SCENARIO), study.PROTOCOLS[protocol]).runs, None)


@pytest.fixture(scope="module")
def results(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, rt.Result]:
    root = tmp_path_factory.mktemp("compared")
    return {
        name: rt.run(study.SCENARIO, sail.spark, root / name, overrides=[*protocol, *SMALL])
        for name, protocol in study.PROTOCOLS.items()
    }


@pytest.fixture(scope="module")
def found(results: Mapping[str, rt.Result]) -> dict[str, pd.DataFrame]:
    return study.concatenated([study.measures(result) for result in results.values()])


def test_both_protocols_get_equal_inputs_under_all_settings() -> None:
    delta, ginger = inputs("delta"), inputs("ginger")
    assert len(delta.crash) > 0
    for name in Inputs.__dataclass_fields__:
        assert (getattr(delta, name) == getattr(ginger, name)) == (name != "size"), name  # delta stores paths


def test_both_stores_have_the_same_calls_and_crashes(results: Mapping[str, rt.Result]) -> None:
    for table, columns in FIXED.items():
        delta, ginger = (
            sorted(map(tuple, result.sql(f"select {columns} from {table}").collect()), key=repr)
            for result in results.values()
        )
        assert delta == ginger != []


def test_all_is_delivered_within_the_bounds(results: Mapping[str, rt.Result], found: dict[str, pd.DataFrame]) -> None:
    assert {name: result.verdict for name, result in results.items()} == {"delta": "valid", "ginger": "valid"}
    within = found["run"][found["run"].within_bound.astype(bool)]
    assert set(within.protocol) == {"delta", "ginger"}
    assert (within.n_delivered == within.n_wanted).all()


def test_crashes_make_deliveries_late_and_connections_are_repaired(found: dict[str, pd.DataFrame]) -> None:
    numbers = study.tables(found)
    whole = numbers["protocols"].set_index(["protocol", "crashes"])
    assert list(whole.index) == [(name, n) for name in ("delta", "ginger") for n in range(3)]
    for name in study.PROTOCOLS:
        assert whole.late_max[name, 0] == 0 < whole.late_max[name, 1]
        assert pd.isna(whole.repairs[name, 0])
        assert whole.repairs[name, 1] > 0
    latency = numbers["latency"].set_index(["protocol", "crashes", "guarantee"])["median"]
    assert latency["ginger", 0, "total"] > latency["delta", 0, "total"]


def test_the_comparison_is_drawn(found: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    [written] = study.write(study.pictures(found), tmp_path)
    assert "guarantee: total" in written.read_text("utf-8")
