"""Annex IX: the delivery orders of two replicas pass the order audit; a swap that touches a total-order message fails.

Table IX.2 is IX.1 with positions 4, 5 and 7, 8 swapped.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from pipelines.engines.session import Session
from pipelines.tables import NODE, PUBLICATION
from pipelines.testing import Change, found, planted, run_all, run_configs, scenario

# replica:message, with the first letter of its guarantee (C, E, or T for total)
TABLE_IX_1 = [
    "1:42C", "2:47C", "2:64T", "2:84E", "1:98E", "2:95C", "2:102T", "1:131E", "2:131E",
    "2:133C", "1:189T", "2:265C", "2:295T", "2:399E", "2:449C", "1:464E", "2:465T", "1:501C",
    "2:519T", "2:545C", "1:675T", "1:840E", "2:907E", "1:909T", "1:938T",
]  # fmt: skip
GUARANTEE = {"E": "eventual", "C": "causal", "T": "total"}
ACCOUNT = "162550483"


def swapped(order: list[str], place: int) -> list[str]:
    return [*order[:place], order[place + 1], order[place], *order[place + 2 :]]


TABLE_IX_2 = swapped(swapped(TABLE_IX_1, 4), 7)
RUNS = [TABLE_IX_2, *(swapped(TABLE_IX_2, place) for place in range(24))]


def replaced_by(rows: list[dict[str, object]]) -> Change:
    def change(frame: DataFrame) -> DataFrame:
        return frame.sparkSession.createDataFrame(rows, frame.schema)

    return change


def parts(text: str) -> tuple[int, int, str]:
    replica, _, number = text.partition(":")
    return int(replica), int(number[:-1]), GUARANTEE[number[-1]]


def test_exactly_the_swaps_that_touch_a_total_order_message_fail(sail: Session, tmp_path: Path) -> None:
    overlay = {"links": [["B0", "B1"]], "clients": [{"name": "C", "at": "B0"}]}
    clean = run_all(run_configs([scenario(protocol={"name": "ginger"}, overlay=overlay)]), sail, tmp_path)
    nodes = [{**dict.fromkeys(NODE.columns), "run_id": run, "node_id": node, "name": f"replica{node}"}
             for run in range(25) for node in (1, 2)]  # fmt: skip
    publications = [
        dict.fromkeys(PUBLICATION.columns)
        | {"run_id": run, "source": replica, "source_seq": seq, "issued_round": 0, "topic": "topic", "keys": [ACCOUNT]}
        | {"guarantee": guarantee}
        for run in range(25)
        for replica, seq, guarantee in map(parts, TABLE_IX_1)
    ]
    delivered = [
        {"run_id": run, "node_id": node, "position": position, "topic": "topic", "source": replica, "source_seq": seq}
        for run, other in enumerate(RUNS)
        for node, order in ((1, TABLE_IX_1), (2, other))
        for position, (replica, seq, _) in enumerate(map(parts, order))
    ]
    store = planted(
        clean, tmp_path, node=replaced_by(nodes), publication=replaced_by(publications),
        state_delivered=replaced_by(delivered),
    )  # fmt: skip
    failing = {run for run, *_ in found(store, "total_order", "ginger")}
    touching = {place + 1 for place in range(24) if "T" in TABLE_IX_2[place] + TABLE_IX_2[place + 1]}
    assert failing == touching
    assert len(touching) == 16
