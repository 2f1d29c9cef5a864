"""Scenarios in the shape of users' files: what comes out is what the files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pipelines as rt
from pipelines.engines.session import Session

BROKERS = "links: [[b1, b2], [b2, b3]]\n  clients: "
BY_CONTENT = pytest.mark.parametrize("protocol", ["forwarding", "delta", "epidemic"])


def delivered(folder: Path, sail: Session, text: str) -> set[tuple[str, int]]:
    """Runs a scenario; returns subscriber and number of each delivery."""
    (folder / "s.yaml").write_text(text, encoding="utf-8")
    result = rt.run(folder / "s.yaml", sail.spark, folder / "store")
    assert result.verdict == "valid"
    assert result.sql("select * from missing_delivery").count() == 0
    asked = "select n.name, d.source_seq from delivery d join node n on n.run_id = d.run_id and n.node_id = subscriber"
    rows: list[Any] = result.sql(asked).collect()
    return {(row.name, row.source_seq) for row in rows}


@BY_CONTENT
def test_identifiers_of_64_bits_are_compared_exactly(tmp_path: Path, sail: Session, protocol: str) -> None:
    first, *_ = ids = [1709287200000000001, 1709287200000000002, 1709287200000000090, 1709287200000000300]
    contents = "".join(f"    - {{at: P, round: {25 + i}, content: {{order_id: {one}}}}}\n" for i, one in enumerate(ids))
    found = delivered(tmp_path, sail, f"""
name: big
protocol: {{name: {protocol}}}
overlay:
  {BROKERS}[{{name: P, at: b1}}, {{name: S, at: b2}}, {{name: T, at: b2}}]
workload:
  subscriptions:
    - {{at: S, where: order_id = {first}}}
    - {{at: T, where: order_id > {first}}}
  publications:
{contents}
time: {{rounds: 100}}
""")  # fmt: skip
    assert found == {("S", 1), ("T", 2), ("T", 3), ("T", 4)}
