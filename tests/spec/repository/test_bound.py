"""What repositories promise to bear: brokers that are gone for good leave a way between clients and repositories."""

from __future__ import annotations

import pyarrow as pa

from udfs.reach import cut_round, neighbours, repository_beyond

P, S, R = 10, 11, 20
LINE = [(0, 1), (1, 2), (P, 0), (S, 2), (R, 0)]
RING = [*LINE, (2, 0)]
ENDS = (P, S, R)


def test_a_broker_between_clients_is_gone_for_good() -> None:
    assert cut_round(ENDS, neighbours(LINE), [(30, 1)]) == 30
    assert cut_round(ENDS, neighbours(RING), [(30, 1)]) is None


def test_the_crash_that_cuts_the_last_way_counts() -> None:
    ladder = [*LINE, (0, 3), (3, 2)]
    assert cut_round(ENDS, neighbours(ladder), [(30, 1)]) is None
    assert cut_round(ENDS, neighbours(ladder), [(30, 1), (40, 3)]) == 40


def test_nobody_asks_for_a_way_to_who_is_gone() -> None:
    assert cut_round((P, R), neighbours(LINE), [(30, 1), (31, 2)]) is None
    assert cut_round(ENDS, neighbours(LINE), [(30, S), (31, 2)]) is None
    assert cut_round((P, S), neighbours(LINE), [(30, P), (31, S)]) is None


def test_runs_are_told_apart() -> None:
    links = [{"src": a, "dst": b} for pair in LINE for a, b in (pair, pair[::-1])]
    runs = [
        {"run_id": run_id, "ends": list(ENDS), "links": links, "gone": [{"round": 30, "node_id": node}]}
        for run_id, node in ((4, 1), (5, R))
    ]
    (found,) = repository_beyond([pa.RecordBatch.from_pylist(runs)])
    assert [(row["run_id"], row["round"]) for row in found.to_pylist()] == [(4, 30)]
