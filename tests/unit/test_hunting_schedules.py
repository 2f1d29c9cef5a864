"""Schedules of a hunt: aimed at single messages, drawn, and all schedules of crashes up to symmetries."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import networkx as nx
import numpy as np
import pytest
from pydantic import ValidationError

from pipelines.errors import InputError
from pipelines.hunting.coverage import reached
from pipelines.hunting.schedules import FORMS, Schedule, Surroundings, Target, aimed, crash_sets, drawn
from pipelines.scenario.model import Scenario

AROUND = Surroundings(
    {"A": ["B", "D"], "B": ["A", "C"], "C": ["B", "E"], "D": ["A"], "E": ["C"]}, detection_rounds=5
)  # fmt: skip
PUB = Target("PUB", "UP", "first", "A", "B", 20, 22)
SUB = Target("SUB", "UP", "first", "C", "B", 3, 4)


def faults_of(form: str, target: Target = PUB) -> list[dict[str, object]]:
    """Returns the faults of one form."""
    [found] = [one for one in aimed({None: [target]}, AROUND) if one.form == form]
    return [dict(fault) for fault in found.faults]


def test_every_kind_is_struck_in_one_form_before_the_next_form_comes() -> None:
    found = list(aimed({None: [PUB, SUB]}, AROUND))
    assert [one.form for one in found[:4]] == ["receiver crashes then"] * 2 + ["lost"] * 2
    assert found[1].aims == ("first SUB from C to B in round 4 (UP): receiver crashes then",)
    assert {one.form for one in found} == {*FORMS}


def test_each_form_takes_the_next_seed() -> None:
    found = list(aimed({None: [PUB], 7: [SUB, SUB]}, AROUND))
    assert [(one.form, one.seed) for one in found[:4]] == [
        ("receiver crashes then", None), ("lost", 7), ("lost", 7), ("sender crashes a round after", None),
    ]  # fmt: skip
    struck = {(one.form, one.seed) for one in found}
    assert {form for form, seed in struck if seed is None} == {*FORMS}
    assert found[1].also(found[0]).seed == 7
    assert found[1].aims == ("first SUB from C to B in round 4 (UP, seed 7): lost",)
    assert {one.seed for one in islice(drawn({None: [PUB], 7: [SUB]}, AROUND, np.random.default_rng(1)), 50)} == {
        None,
        7,
    }


def test_forms_begin_with_the_one_that_is_asked_for() -> None:
    forms = [*FORMS]
    found = [one.form for one in aimed({None: [PUB]}, AROUND, first=len(forms) + 2)]
    assert found[:2] == forms[2:4]
    assert {*found} == {*forms}


def test_forms_strike_the_message_in_its_round() -> None:
    assert faults_of("receiver crashes then") == [{"kind": "crash", "node": "B", "round": 22, "until": 28}]
    assert faults_of("sender crashes a round after") == [{"kind": "crash", "node": "A", "round": 21, "until": 27}]
    assert faults_of("receiver crashes then, for good") == [{"kind": "crash", "node": "B", "round": 22}]
    assert faults_of("receiver recovers then") == [{"kind": "crash", "node": "B", "round": 16, "until": 22}]
    assert faults_of("receiver and a neighbour crash") == [
        {"kind": "crash", "node": name, "round": 22, "until": 28} for name in ("B", "C")
    ]
    which = {"kinds": ["PUB"], "from": "A", "to": "B", "nth": 3, "round": 20, "until": 21}
    assert faults_of("lost", PUB._replace(nth=3)) == [{"kind": "loss", **which}]


def test_forms_strike_nodes_near_the_message_and_messages_like_it() -> None:
    for form, node, round_ in (
        ("a neighbour of the receiver crashes", "C", 22), ("a neighbour of the sender crashes", "D", 20),
        ("a node two links from the receiver crashes", "E", 22),
    ):  # fmt: skip
        assert faults_of(form) == [{"kind": "crash", "node": node, "round": round_, "until": round_ + 6}]
    lost = {"kind": "loss", "rate": 1.0, "round": 20, "until": 26}
    assert faults_of("its kind is lost for a while") == [{**lost, "kinds": ["PUB"]}]
    assert faults_of("its link loses all for a while") == [{**lost, "links": [["A", "B"]], "direction": "forward"}]
    far = {one.form for one in aimed({None: [PUB._replace(dst="C")]}, AROUND)}
    assert "its link loses all for a while" not in far


def test_without_a_program_a_message_is_struck_by_its_kind_round_and_link() -> None:
    around = replace(AROUND, has_nth=False)
    found = {one.form: one.faults for one in aimed({None: [PUB]}, around)}
    link = {"links": [["A", "B"]], "direction": "forward", "round": 20, "until": 21}
    assert found["lost"] == ({"kind": "loss", "kinds": ["PUB"], "rate": 1.0, **link},)
    [fault] = next(one.faults for one in aimed({None: [PUB._replace(dst="C")]}, around) if one.form == "lost")
    assert "links" not in fault


def test_a_form_that_does_not_fit_is_left_out() -> None:
    forms = {one.form for one in aimed({None: [SUB]}, AROUND)}
    assert "receiver recovers then" not in forms  # it would have to crash before round 0


def test_all_faults_are_valid_in_a_scenario() -> None:
    schedules = [
        *aimed({None: [PUB, SUB]}, AROUND),
        *islice(drawn({None: [PUB, SUB]}, AROUND, np.random.default_rng(1)), 200),
    ]
    for fault in (fault for one in schedules for fault in one.faults):
        Scenario.model_validate({
            "name": "one", "protocol": {"name": "forwarding"},
            "overlay": {"links": [["A", "B"], ["B", "C"], ["A", "D"], ["C", "E"]]}, "faults": [fault],
        })  # fmt: skip


@pytest.mark.parametrize(
    "faults",
    [
        [{"kind": "crash", "node": "B", "round": 3}, {"kind": "crash", "node": "B", "round": 5}],
        [{"kind": "crash", "node": "X", "round": 3}],
        [{"kind": "loss", "round": 3, "links": [["A", "C"]], "rate": 1.0}],
        [{"kind": "crash", "node": "B", "round": 1000}],
        [{"kind": "crash", "round": 3}],
    ],
    ids=["overlap", "node", "link", "horizon", "key"],
)
def test_a_scenario_with_other_faults_is_checked_as_a_whole_one(faults: list[dict[str, Any]]) -> None:
    parts = {
        "name": "line", "protocol": {"name": "forwarding"}, "overlay": {"links": [["A", "B"], ["B", "C"]]},
        "workload": {"publications": [{"at": "A", "round": 20, "topic": "a"}]}, "time": {"rounds": 60},
    }  # fmt: skip
    scenario, runs = Scenario.model_validate(parts), {"seeds": [7]}
    valid = [{"kind": "crash", "node": "B", "round": 3, "until": 5}]
    assert scenario.varied(valid, runs) == Scenario.model_validate({**parts, "faults": valid, "runs": runs})
    with pytest.raises((InputError, ValidationError)) as varied:
        scenario.varied(faults, runs)
    with pytest.raises(ValidationError) as whole:
        Scenario.model_validate({**parts, "faults": faults, "runs": runs})
    if isinstance(varied.value, ValidationError):
        assert [one["msg"] for one in varied.value.errors()] == [one["msg"] for one in whole.value.errors()]
    else:
        assert str(varied.value) in str(whole.value)


def test_drawn_schedules_follow_from_the_seed() -> None:
    first, again, other = (
        [one.key for one in islice(drawn({None: [PUB, SUB]}, AROUND, np.random.default_rng(seed)), 50)]
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_drawn_schedules_end_when_all_are_drawn() -> None:
    alone, only = Surroundings({"A": []}, detection_rounds=0, has_nth=True), PUB._replace(src="A", dst="A", due_round=0)
    keys = [one.key for one in drawn({None: [only]}, alone, np.random.default_rng(1))]
    assert len(keys) == len({*keys}) > 50


def test_equal_schedules_have_one_key() -> None:
    one, two = ({"kind": "crash", "node": name, "round": 3} for name in "AB")
    assert Schedule((one, two), ("x",), "x").key == Schedule((two, one), ("y",), "y").key


def star(labels: str) -> nx.Graph[str]:
    """Returns hub H with a leaf for each label."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_node("H", label="")
    for number, label in enumerate(labels):
        graph.add_node(f"L{number}", label=label)
        graph.add_edge("H", f"L{number}", latency_rounds=1)
    return graph


@pytest.mark.parametrize(
    ("labels", "most", "number"),
    [
        ("aaa", 1, 2 * 2),  # the hub, or a leaf; two rounds
        ("aaa", 2, 4 + 4 + 3),  # with the hub each order counts; two like leaves: three sets of rounds
        ("abc", 1, 4 * 2),  # no symmetry
        ("abc", 2, 4 * 2 + 6 * 4),
        ("aab", 1, 3 * 2),
    ],
)
def test_symmetric_schedules_of_crashes_are_counted_once(labels: str, most: int, number: int) -> None:
    counted, schedules = crash_sets(star(labels), most, (7, 8), 3)
    found = list(schedules)
    assert counted == len(found) == len({one.key for one in found}) == number
    assert {fault["round"] for one in found for fault in one.faults} == {7, 8}


def test_an_overlay_with_too_many_symmetries_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 10,000 symmetries"):
        crash_sets(star("a" * 9), 1, (0, 1), None)


def test_coverage_has_a_row_for_kinds_that_no_run_sent() -> None:
    found = {"PUB UP delivered", "PUB UP lost_link", "SUB DOWN lost_crash", "PUB with SUB", "status none to UP"}
    statuses, table = reached(found, ["PUB", "SUB", "CONF"])
    assert statuses == ["DOWN", "UP"]
    assert table == {
        "PUB": {"UP": {"delivered", "lost_link"}}, "SUB": {"DOWN": {"lost_crash"}}, "CONF": {},
    }  # fmt: skip
