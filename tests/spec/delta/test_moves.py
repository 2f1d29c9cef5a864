"""Moves: subscriptions that end at one node and begin at another, and what is lost between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.api import run_prepared
from pipelines.cli.queries import print_overview
from pipelines.cli.verdict import verdict_line
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


def test_why_and_the_verdict_tell_what_a_move_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of rounds 60, 62 and 71: A delivers the first two after its application has left."""
    calls = [{"at": "P", "round": at, "topic": "t"} for at in (40, 60, 62, 71, 100)]
    given = parts(**{**MOVED, "subscriptions": [*MOVED["subscriptions"], {"at": "B", "topic": "t"}]})
    given["workload"]["publications"] = calls
    with run_prepared(prepare(given), store=tmp_path / "store", engine="local") as result:
        (loss,) = result.lost_by_moves()
        assert loss.move == ("A", "C", 60, 70)
        assert [one.issued_round for one in loss.lost] == [60, 62, 71]
        assert [one.old_round for one in loss.lost] == [61, 63, None]
        assert 71 < (loss.confirmed_round or 0) < 100
        line = verdict_line(result, result.audit(), ())
        assert result.lost_by_moves(0) == [loss]
        print_overview(result, None, as_json=False)
    assert "1 moving application missed 3 publications" in line
    shown = " ".join(capsys.readouterr().out.split())
    assert "run 0: the application at A unsubscribes in round 60, subscribes at C in round 70" in shown
    assert "of P, published in round 60, delivered to A in round 61" in shown


def test_a_move_that_loses_nothing_is_not_told(tmp_path: Path) -> None:
    given = parts(**MOVED)
    given["workload"]["publications"] = [{"at": "P", "round": at, "topic": "t"} for at in (40, 100)]
    with run_prepared(prepare(given), store=tmp_path / "store", engine="local") as result:
        assert result.lost_by_moves() == []
        assert "moving" not in verdict_line(result, result.audit(), ())


def prepared(folder: Path, **workload: Any) -> Prepared:
    (folder / "moves.yaml").write_text(json.dumps(parts(**workload)))
    return prepare(folder / "moves.yaml")


def test_a_plan_tells_the_loss(tmp_path: Path) -> None:
    told = [note for part, note in notes(prepared(tmp_path, **MOVED)) if part == "workload"]
    assert told == [
        "A moves to C: it misses publications from round 60 until its subscriptions of round 70 are confirmed at C, "
        "because no protocol transfers subscriptions"
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
