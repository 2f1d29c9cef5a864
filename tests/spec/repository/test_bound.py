"""What repositories promise to bear: brokers that are gone for good leave a way between clients and repositories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from udfs.reach import repository_beyond

P, S, R = 10, 11, 20
LINE = [(0, 1), (1, 2), (P, 0), (S, 2), (R, 0)]
RING = [*LINE, (2, 0)]
ENDS = (P, S, R)


def beyond(*runs: dict[str, Any]) -> list[tuple[int, int]]:
    """Returns the id and the round of each of `runs` that is beyond the bound."""
    (found,) = repository_beyond([pa.RecordBatch.from_pylist(list(runs))])
    return [(row["run_id"], row["round"]) for row in found.to_pylist()]


def run_of(
    run_id: int, ends: Sequence[int], links: Sequence[tuple[int, int]], gone: Sequence[tuple[int, int]]
) -> dict[str, Any]:  # fmt: skip
    """Returns the input of a run with `links` in both directions. A permanent crash in `gone` is a round and a node."""
    both = [{"src": a, "dst": b} for pair in links for a, b in (pair, pair[::-1])]
    crashes = [{"round": round_, "node_id": node} for round_, node in gone]
    return {"run_id": run_id, "ends": list(ends), "links": both, "gone": crashes, "duplicate_round": None}


def cut_round(
    ends: Sequence[int], links: Sequence[tuple[int, int]], gone: Sequence[tuple[int, int]]
) -> int | None:  # fmt: skip
    """Returns the round in which permanent crashes cut off one of `ends`."""
    return next((round_ for _, round_ in beyond(run_of(0, ends, links, gone))), None)


def test_a_broker_between_clients_is_gone_for_good() -> None:
    assert cut_round(ENDS, LINE, [(30, 1)]) == 30
    assert cut_round(ENDS, RING, [(30, 1)]) is None


def test_the_crash_that_cuts_the_last_way_counts() -> None:
    ladder = [*LINE, (0, 3), (3, 2)]
    assert cut_round(ENDS, ladder, [(30, 1)]) is None
    assert cut_round(ENDS, ladder, [(30, 1), (40, 3)]) == 40


def test_nobody_asks_for_a_way_to_who_is_gone() -> None:
    assert cut_round((P, R), LINE, [(30, 1), (31, 2)]) is None
    assert cut_round(ENDS, LINE, [(30, S), (31, 2)]) is None
    assert cut_round((P, S), LINE, [(30, P), (31, S)]) is None


def test_the_baseline_does_not_bear_duplicates() -> None:
    run = run_of(0, ENDS, LINE, [(30, 1)])
    assert beyond({**run, "duplicate_round": 20}) == [(0, 20), (0, 30)]
    assert beyond({**run, "gone": None, "duplicate_round": 20}) == [(0, 20)]


def test_runs_are_told_apart() -> None:
    assert beyond(*(run_of(run_id, ENDS, LINE, [(30, node)]) for run_id, node in ((4, 1), (5, R)))) == [(4, 30)]
