"""View ``key_overtaking``: publications of a source without a common key item may overtake each other (rule G4)."""

from __future__ import annotations

from pathlib import Path

import pipelines as rt
from pipelines.engines.session import Session

SCENARIO = """name: keys
protocol: {name: ginger}
overlay:
  links: [[B0, B1, 3], [B0, B2, 5], [B1, B3, 2]]
  clients: [{name: CA, at: B3}, {name: CB, at: B2}]
workload:
  subscriptions: [{at: CA, topic: t}, {at: CB, topic: t}]
  publications:
    - {at: CA, round: 100, topic: t, guarantee: total, keys: [x]}
    - {at: CA, round: 102, topic: t, guarantee: causal, keys: [x]}
    - {at: CA, round: 103, topic: t, guarantee: causal, keys: [w]}
    - {at: CA, round: 104, topic: t, guarantee: eventual, keys: [y]}
time: {rounds: 500}
"""


def test_a_causal_publication_overtakes_one_with_other_keys(sail: Session, tmp_path: Path) -> None:
    """CB gets w of round 103 before x of round 102, which waits for the lock of the total-order one; CA, too."""
    sail.activate()
    with rt.run(SCENARIO, spark=sail.spark, store=tmp_path / "store") as result:
        assert result.verdict == "valid"
        rows = result.table("key_overtaking").orderBy("subscriber_name").collect()
        delivered = result.sql(
            "select n.name, d.source_seq, d.round from delivery d "
            "join node n on n.run_id = d.run_id and n.node_id = d.subscriber"
        ).collect()
    at = {(row.name, row.source_seq): row.round for row in delivered}
    first = min(seq for _, seq in at)
    pairs = [(first, first + 2), (first + 1, first + 2)]  # total x and causal x, each before causal w
    for row in rows:
        overtaken = [one for one, other in pairs if at[row.subscriber_name, other] < at[row.subscriber_name, one]]
        assert (row.source_name, row.n_pairs, row.n_overtaken) == ("CA", 2, len(overtaken))
        assert row.first_seq == min(overtaken, default=None)
    assert [row.subscriber_name for row in rows] == ["CA", "CB"]
    assert rows[1].n_overtaken > 0
