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
from pipelines.hunting.schedules import FORMS, BaseRun, Schedule, Target, aimed, all_crashes, crash_sets, drawn
from pipelines.scenario.model import Scenario

BASE = BaseRun({"A": ["B", "D"], "B": ["A", "C"], "C": ["B", "E"], "D": ["A"], "E": ["C"]}, detection_rounds=5)
PUB = Target("PUB", "UP", "first", "A", "B", 20, 22)
SUB = Target("SUB", "UP", "first", "C", "B", 3, 4)


def at(*targets: Target, label: str = "") -> BaseRun:
    """Returns a base run with these targets."""
    return replace(BASE, targets=targets, label=label)


def faults_of(form: str, target: Target = PUB) -> list[dict[str, object]]:
    """Returns the faults of one form."""
    [found] = [one for one in aimed([at(target)]) if one.form == form]
    return [dict(fault) for fault in found.faults]


def test_every_kind_is_struck_in_one_form_before_the_next_form_comes() -> None:
    found = list(aimed([at(PUB, SUB)]))
    assert [one.form for one in found[:4]] == ["receiver crashes then"] * 2 + ["lost"] * 2
    assert found[1].aims == ("first SUB from C to B in round 4 (UP): receiver crashes then",)
    assert {one.form for one in found} == {*FORMS}


def test_each_form_takes_the_next_base_run() -> None:
    found = list(aimed([at(PUB), at(SUB, SUB, label="seed 7")]))
    assert [(one.form, one.base) for one in found[:4]] == [
        ("receiver crashes then", 0), ("lost", 1), ("lost", 1), ("sender crashes a round after", 0),
    ]  # fmt: skip
    struck = {(one.form, one.base) for one in found}
    assert {form for form, base in struck if base == 0} == {*FORMS}
    assert found[1].also(found[0]).base == 1
    assert found[1].aims == ("first SUB from C to B in round 4 (UP, seed 7): lost",)


def test_two_passes_cover_more_base_runs_than_forms() -> None:
    n_bases = len(FORMS) + 46
    found = [one.base for one in islice(aimed([at(PUB)] * n_bases), 2 * len(FORMS))]
    assert {*found} == {*range(n_bases)}
    whole = [(one.form, one.base) for one in aimed([at(PUB)] * n_bases)]
    assert len(whole) == len({*whole}) == n_bases * len(FORMS)


def test_random_faults_are_of_the_nodes_and_rounds_of_their_base_run() -> None:
    far = Target("CONF", "UP", "first", "D", "E", 90, 99)
    found = [*islice(drawn([at(PUB), at(), at(far, label="run 2")], np.random.default_rng(1)), 200)]
    assert {one.base for one in found} == {0, 2}
    nodes = {(one.base, fault["node"]) for one in found for fault in one.faults if "node" in fault}
    assert nodes == {(0, "A"), (0, "B"), (2, "D"), (2, "E")}
    kinds = {(one.base, kind) for one in found for fault in one.faults for kind in fault.get("kinds", ())}
    assert kinds == {(0, "PUB"), (2, "CONF")}
    assert max(fault["round"] for one in found if one.base == 0 for fault in one.faults) <= 22
    assert {one.aims for one in found} == {("random",), ("random, run 2",)}


def test_all_crashes_are_those_of_each_base_run_with_a_target_in_turn() -> None:
    lines: list[str] = []
    bases = [at(PUB), at(), at(SUB, label="run 2")]
    found = [*all_crashes(bases, [star("ab"), star("ab"), star("aa")], 1, None, lines.append)]
    assert lines == [
        "3 schedules of up to 1 crashes in rounds 22 to 22", "2 schedules of up to 1 crashes in rounds 4 to 4, run 2",
    ]  # fmt: skip
    assert [(one.base, fault["node"], fault["round"]) for one in found for fault in one.faults] == [
        (0, "H", 22), (2, "H", 4), (0, "L0", 22), (2, "L0", 4), (0, "L1", 22),
    ]  # fmt: skip
    assert {one.form for one in found} == {"exhaustive"}
    assert found[3].aims == ("run 2", "crash L0 in round 4")


def test_forms_begin_with_the_one_that_is_asked_for() -> None:
    forms = [*FORMS]
    found = [one.form for one in aimed([at(PUB)], first=len(forms) + 2)]
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
    far = {one.form for one in aimed([at(PUB._replace(dst="C"))])}
    assert "its link loses all for a while" not in far


def test_a_form_that_does_not_fit_is_left_out() -> None:
    forms = {one.form for one in aimed([at(SUB)])}
    assert "receiver recovers then" not in forms  # it would have to crash before round 0


def test_all_faults_are_valid_in_a_scenario() -> None:
    schedules = [
        *aimed([at(PUB, SUB)]),
        *islice(drawn([at(PUB, SUB)], np.random.default_rng(1)), 200),
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
        [one.key for one in islice(drawn([at(PUB, SUB)], np.random.default_rng(seed)), 50)] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_drawn_schedules_end_when_all_are_drawn() -> None:
    alone = BaseRun({"A": []}, detection_rounds=0, targets=[PUB._replace(src="A", dst="A", due_round=0)])
    keys = [one.key for one in drawn([alone], np.random.default_rng(1))]
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
