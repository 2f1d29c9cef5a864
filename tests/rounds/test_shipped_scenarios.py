"""The scenarios that are shipped do what their comments say."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import pipelines as rt
from pipelines.session import Session

SCENARIOS = Path(__file__).parents[2] / "conf" / "scenarios"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
QUOTES = DATA / "workloads" / "padres_stockquotes" / "stockquotes_newest500.tar.xz"


def run(session: Session, path: Path, store: Path, *overrides: str) -> Any:
    session.activate()
    return rt.run(str(path), spark=session.spark, store=str(store), overrides=overrides)


def count(result: Any, query: str) -> int:
    return int(result.sql(f"select count(*) as n from {query}").collect()[0]["n"])


def test_quickstart(sail: Session, tmp_path: Path) -> None:
    result = run(sail, SCENARIOS / "quickstart.yaml", tmp_path / "store")
    assert result.verdict == "valid"
    assert count(result, "delivery") > 100
    assert count(result, "missing_delivery") == 0
    by_delta = result.sql("select run_id, count(*) as n from state_path group by run_id order by run_id").collect()
    assert by_delta[0]["n"] < by_delta[1]["n"]


def test_quickstart_on_spark(spark: Session, tmp_path: Path) -> None:
    result = run(spark, SCENARIOS / "quickstart.yaml", tmp_path / "store")
    assert result.verdict == "valid"
    assert count(result, "delivery") > 100


def test_quickstart_over_padres_quotes(sail: Session, tmp_path: Path) -> None:
    """Content predicates at quantiles of close and volume, over real quotes."""
    if not QUOTES.exists():
        pytest.skip(f"the PADRES quotes are not at {QUOTES}")
    with tarfile.open(QUOTES) as archive:
        symbols = sorted({Path(member.name).stem for member in archive if member.isfile()})[:6]
    parts = yaml.safe_load((SCENARIOS / "quickstart.yaml").read_text(encoding="utf-8"))
    brokers = ["NL", "DE", "FR", "UK", "ES", "IT"]
    where = [f"symbol = '{symbol}' and close > {price} and volume > {volume}"
             for symbol in symbols for price, volume in ((1, 0), (5, 10_000), (20, 100_000))]  # fmt: skip
    parts["workload"] = {
        "subscriptions": [{"at": brokers[place % 6], "where": text} for place, text in enumerate(where)],
        "publications": {"file": {
            "path": str(QUOTES), "format": "padres", "nodes": 3, "reverse": True,
            "round": 60, "per_round": 100, "limit": 2000,
        }},
    }  # fmt: skip
    path = tmp_path / "padres.yaml"
    path.write_text(yaml.safe_dump(parts), encoding="utf-8")
    result = run(sail, path, tmp_path / "store")
    assert result.verdict == "valid"
    assert count(result, "publication") == 2 * 2000
    assert count(result, "delivery") == count(result, "expected_delivery") > 50


def test_figure_1(sail: Session, tmp_path: Path) -> None:
    """Forwarding loses the middle publication and breaks its subscriber's stream; delta promises nothing too early."""
    lost = run(sail, SCENARIOS / "figure1.yaml", tmp_path / "forwarding")
    assert lost.verdict == "invalid"
    missing = lost.sql("select subscriber_name, source_seq from missing_delivery").collect()
    assert [tuple(row) for row in missing] == [("S1", 2)]
    kept = run(sail, SCENARIOS / "figure1.yaml", tmp_path / "delta", "protocol.name=delta")
    assert kept.verdict == "valid"
    assert count(kept, "missing_delivery") == 0


def test_figure_5(sail: Session, tmp_path: Path) -> None:
    result = run(sail, SCENARIOS / "figure5.yaml", tmp_path / "store")
    assert result.verdict == "valid"
    assert count(result, "delivery") == 4 * 2
