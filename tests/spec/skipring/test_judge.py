"""The detector judges by the definition, apart from the program, and tells a livelock from a short horizon."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest
from support.skipring import INTERVAL, history, network, slots

from udfs.skipring.labels import label_of
from udfs.skipring.legitimate import nth, point_of, skip_ring, supervisor_of
from udfs.skipring.replay import TopicReplay
from udfs.skipring.state import Supervisor, point_of as program_point_of, responsible, sides
from udfs.skipring.supervisor import configuration

JUDGES = ("replay", "legitimate", "history")
PROGRAM = ("labels", "state", "supervisor", "subscriber", "trie", "messages", "program")


def test_judges_load_nothing_of_the_program() -> None:
    text = "import sys\n" + "".join(f"import udfs.skipring.{name}\n" for name in JUDGES)
    text += f"print([one for one in {PROGRAM} if f'udfs.skipring.{{one}}' in sys.modules])"
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("n", [*range(1, 70), 100, 127, 128, 129, 1000])
def test_the_definition_is_what_the_program_computes(n: int) -> None:
    """Two derivations of SR(n), the program's by numbers and ring neighbours, agree."""
    entries: dict[Any, int | None] = {label_of(index): index for index in range(n)}
    found = {}
    for label, index in entries.items():
        held = sides((label.value, index or 0), *configuration(entries, label))
        found[str(label)] = (
            [None if one is None else str(one.label) for one in held],
            {str(one) for one in slots(n)[label]},
        )
        if n > 200:
            break
    places = skip_ring(n)
    assert {label: ([*places[label].sides(label)], {*places[label].shortcuts}) for label in found} == found
    assert [*places] == [nth(index) for index in range(n)]


def test_values_of_figure_1() -> None:
    values = [sum(Fraction(int(digit), 1 << at) for at, digit in enumerate(nth(x), 1)) for x in range(8)]
    assert values == [Fraction(one) for one in ("0", "1/2", "1/4", "3/4", "1/8", "3/8", "5/8", "7/8")]


def test_supervisors_are_those_of_the_program() -> None:
    names = {-one: f"supervisor{one}" for one in (1, 2, 3)}
    points = {node: point_of(name) for node, name in names.items()}
    supervisors = [Supervisor(node, program_point_of(name)) for node, name in names.items()]
    for number in range(200):
        assert supervisor_of(f"topic{number}", points) == responsible(f"topic{number}", supervisors)


def stalls(run: dict[str, Any]) -> list[str]:
    """Returns the details of the topics that never become legitimate."""
    topic = TopicReplay(run)
    assert [*topic.play()]
    stall = topic.stall()
    return [] if stall is None else [stall.detail]


def flapping(end: int, labels: list[str]) -> dict[str, Any]:
    """Returns the history of a run in which a node has one label after the other, an interval each."""
    played = network(5)
    played.play(end)
    run = history(played)
    row = next(one for one in run["configurations"] if one["label"] == "01")
    rows = [dict(row, round=-1 + number * INTERVAL, label=label) for number, label in enumerate(labels)]
    rest = [one for one in run["configurations"] if one["node_id"] != row["node_id"]]
    return run | {"configurations": sorted([*rest, *rows], key=lambda one: one["round"])}


def test_a_state_that_comes_again_is_a_livelock() -> None:
    n_intervals = 2 * (4 * 5 + 40) + 2
    run = flapping(n_intervals * INTERVAL, ["00001", "00011"] * (n_intervals // 2))
    [detail] = stalls(run)
    assert "is that of round" in detail
    assert detail.endswith("again")


def test_a_potential_that_falls_is_no_livelock() -> None:
    """Node after node gets its label back, so it goes on."""
    played = network(5)
    end = (2 * (4 * 5 + 40) + 2) * INTERVAL
    played.play(end)
    run = history(played)
    first = sorted(run["configurations"], key=lambda one: one["node_id"])
    wrong = [dict(one, label=f"0000{number:b}1") for number, one in enumerate(first, 2)]
    back = [dict(one, round=end * number // 6) for number, one in enumerate(first[:-1], 1)]
    assert stalls(run | {"configurations": sorted([*wrong, *back], key=lambda one: one["round"])}) == []
    assert len(stalls(run | {"configurations": wrong})) == 1


def test_a_short_horizon_is_no_livelock() -> None:
    assert stalls(flapping(40 * INTERVAL, ["00001", "00011"] * 20)) == []


def test_a_clean_run_has_no_livelock() -> None:
    played = network(5, start="arbitrary")
    played.play(150 * INTERVAL)
    assert stalls(history(played)) == []
