"""Moves: subscriptions that end at one node and begin at another, and what is lost between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.errors import ScenarioError
from pipelines.experiment.build import build_run
from pipelines.experiment.plan import check, notes
from pipelines.experiment.prepared import Prepared, prepare
from pipelines.testing import audited, broken, rows, run_all, run_configs, scenario

LINKS = [["P", "A"], ["A", "B"], ["B", "C"]]
ROUNDS = (40, 62, 71, 100)
"""Rounds of publications: before the move, while the application is away, before and after it is known at C."""


def parts(**workload: Any) -> dict[str, Any]:
    published = [{"at": "P", "round": at, "topic": "t"} for at in ROUNDS]
    return scenario(
        protocol={"name": "delta"}, overlay={"links": LINKS}, workload={"publications": published, **workload},
        time={"rounds": 200},
    )  # fmt: skip


MOVED = {"subscriptions": [{"at": "A", "topic": "t"}], "moves": [{"at": "A", "to": "C", "round": 60, "away": 10}]}
BY_HAND = {"subscriptions": [{"at": "A", "topic": "t", "until": 60}, {"at": "C", "round": 70, "topic": "t"}]}


def test_a_move_under_delta_loses_what_is_published_before_it_is_known_again(sail: Session, tmp_path: Path) -> None:
    found = {}
    for name, workload in (("moved", MOVED), ("by hand", BY_HAND)):
        store = run_all(run_configs([parts(**workload)]), sail, tmp_path / name)
        assert broken(audited(store)) == {}
        found[name] = {table: rows(store, table) for table in ("delivery", "subscription", "message")}
    assert found["moved"] == found["by hand"]
    ids = {name: node for node, name in rows(store, "node", "node_id", "name")}
    published = dict(rows(store, "publication", "source_seq", "issued_round"))
    got = sorted((node, published[seq]) for node, seq in rows(store, "delivery", "subscriber", "source_seq"))
    assert got == sorted([(ids["A"], 40), (ids["C"], 100)]), "what is published while it is away, or unknown, is lost"
    confirmed = dict(rows(store, "subscription", "subscriber", "confirmed_round"))[ids["C"]]
    assert 71 < confirmed < 100


def prepared(folder: Path, **workload: Any) -> Prepared:
    (folder / "moves.yaml").write_text(json.dumps(parts(**workload)))
    return prepare(folder / "moves.yaml")


def test_a_plan_tells_the_loss(tmp_path: Path) -> None:
    told = [note for part, note in notes(prepared(tmp_path, **MOVED)) if part == "workload"]
    assert told == [
        "A moves to C: what is published from round 60 until its subscriptions of round 70 are confirmed at C is lost "
        "to it, as no protocol hands a subscriber over"
    ]


@pytest.mark.parametrize(
    ("move", "said"),
    [
        ({"at": "B", "to": "C", "round": 60}, "B has no subscription in round 60"),
        ({"at": "A", "to": "D", "round": 60}, "'D'"),
        ({"at": "A", "to": "A", "round": 60}, "moves to itself"),
        ({"at": "A", "to": "C", "round": 195, "away": 20}, "after the horizon of 200 rounds"),
    ],
)
def test_a_move_that_cannot_be_is_refused(tmp_path: Path, move: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        check(prepared(tmp_path, subscriptions=[{"at": "A", "topic": "t"}], moves=[move]))
    assert said in "".join(map(str, refused.value.problems))


def test_an_application_moves_on_and_a_subscription_ends_while_it_is_away() -> None:
    given = parts(
        subscriptions=[{"at": "A", "topic": "t"}, {"at": "A", "topic": "u", "until": 62}],
        moves=[{"at": "C", "to": "P", "round": 90, "away": 0}, {"at": "A", "to": "C", "round": 60, "away": 5}],
    )
    [run] = run_configs([given])
    overlay, workload, *_ = build_run(run, None)
    names = overlay.names
    found = [(names[row["node_id"]], row["round"], row["end_round"], row["predicate"][-3:])
             for row in workload.subscription.to_pylist()]  # fmt: skip
    assert found == [("A", 0, 60, "'t'"), ("A", 0, 60, "'u'"), ("C", 65, 90, "'t'"), ("P", 90, None, "'t'")]
