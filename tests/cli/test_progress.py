"""The forms in which a run shows its progress."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pipelines as rt
from pipelines import api
from pipelines.engines.session import Session
from pipelines.experiment.prepared import prepare
from pipelines.rounds import progress
from pipelines.rounds.progress import (
    BarReporter,
    JsonReporter,
    LineReporter,
    NotebookReporter,
    Progress,
    Reporter,
    is_notebook,
)


class Clock:
    """Time that goes on when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drive(form: type[Reporter], clock: Clock, seconds: float, rounds: int = 10, scheduled: int = 20) -> None:
    with form(100, clock) as shown:
        shown.note("starting")
        for round_ in range(1, rounds + 1):
            clock.now += seconds
            shown(Progress(round_, 3, 50, scheduled))


def test_lines_come_every_few_seconds_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    drive(LineReporter, Clock(), 2.0)
    captured = capsys.readouterr()
    assert captured.out == ""
    # Three rounds of two seconds make a line; the last round comes when the reporter is closed.
    assert captured.err.splitlines() == [
        "starting",
        "round 3 of at most 100, 3 in flight, 150 messages, 25 a second, 0:00:34 to round 20",
        "round 6 of at most 100, 3 in flight, 300 messages, 25 a second, 0:00:28 to round 20",
        "round 9 of at most 100, 3 in flight, 450 messages, 25 a second, 0:00:22 to round 20",
        "round 10 of at most 100, 3 in flight, 500 messages, 25 a second, 0:00:20 to round 20",
    ]


def test_a_first_round_tells_nothing_about_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    drive(LineReporter, Clock(), 60.0, rounds=1)
    assert capsys.readouterr().err.splitlines()[1:] == ["round 1 of at most 100, 3 in flight, 50 messages, 1 a second"]


def test_json_lines_are_objects_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    drive(JsonReporter, Clock(), 0.4)
    captured = capsys.readouterr()
    assert captured.err == ""
    events = [json.loads(line) for line in captured.out.splitlines()]
    assert events[0] == {"event": "note", "text": "starting"}
    assert [event["round"] for event in events[1:]] == [3, 6, 9, 10]
    assert events[1] == {
        "event": "round", "round": 3, "horizon": 100, "in_flight": 3, "messages": 150, "messages_per_s": 125,
        "scheduled": 20, "seconds_left": 6.8,
    }  # fmt: skip


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    drive(Reporter, Clock(), 10.0)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    drive(BarReporter, Clock(), 1.0)
    shown = screen.getvalue()
    assert "starting" in shown
    assert "round 10/100" in shown
    assert "3 in flight  50 messages/s  0:00:10 to round 20" in shown


class Output:
    """The output of a cell, which is replaced."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, renderable: Any) -> None:
        self.shown.append(renderable._repr_mimebundle_((), ())["text/html"])


class Shell:
    """A shell of IPython; one that a kernel runs knows it."""

    def __init__(self, kernel: object | None = None) -> None:
        if kernel is not None:
            self.kernel = kernel


def enter(patch: pytest.MonkeyPatch, shell: Shell | None) -> Output:
    """Makes IPython say that the program runs in a shell; returns what a cell shows."""
    output = Output()

    def display(renderable: Any, *, display_id: bool) -> Output:
        assert display_id
        output.update(renderable)
        return output

    patch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    patch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    patch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    return output


def test_a_notebook_gets_a_bar_below_its_cell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = enter(monkeypatch, Shell(kernel=object()))
    drive(NotebookReporter, Clock(), 0.4)
    assert capsys.readouterr() == ("", "starting\n")
    assert len(output.shown) == 1 + 5
    assert "round 2/100" in output.shown[1]
    assert "round 10/100" in output.shown[-1]
    assert "3 in flight  125 messages/s  0:00:04 to round 20" in output.shown[-1]
    assert "━" in output.shown[-1]


def test_only_a_kernel_of_ipython_is_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    for shell, is_one in ((None, False), (Shell(), False), (Shell(kernel=object()), True)):
        enter(monkeypatch, shell)
        assert is_notebook() == is_one
    enter(monkeypatch, Shell())
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "15.4")
    assert is_notebook()
    enter(monkeypatch, None)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "15.4")
    assert not is_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not is_notebook()


LINE: dict[str, Any] = {
    "name": "line",
    "protocol": {"name": "forwarding"},
    "overlay": {"links": [["A", "B"]]},
    "workload": {
        "subscriptions": [{"at": "B", "round": 0, "topic": "a"}],
        "publications": [{"at": "A", "round": 5, "topic": "a"}],
    },
    "time": {"rounds": 20},
}


def test_python_shows_a_bar_in_a_notebook_unless_somebody_observes(
    sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NotebookReporter, "seconds", 0.0)
    output = enter(monkeypatch, Shell(kernel=object()))
    seen: list[Progress] = []
    rt.run(LINE, sail.spark, tmp_path / "observed", observe=seen.append)
    assert seen
    assert output.shown == []
    rt.run(LINE, sail.spark, tmp_path / "shown")
    assert f"round {seen[-1].round}/20" in output.shown[-1]


def test_python_shows_a_bar_in_a_notebook_when_it_resumes(
    sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(progress: Progress) -> None:
        if progress.round > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rt.run(LINE, sail.spark, tmp_path / "store", commit_every=1, observe=stop)
    output = enter(monkeypatch, Shell(kernel=object()))
    rt.resume(tmp_path / "store", sail.spark)
    assert "/20" in output.shown[-1]


def test_a_script_shows_nothing(
    sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = enter(monkeypatch, None)
    rt.run(LINE, sail.spark, tmp_path / "store")
    assert capsys.readouterr() == ("", "")
    assert output.shown == []


def test_after_the_last_call_or_fault_the_runs_drain(capsys: pytest.CaptureFixture[str]) -> None:
    drive(LineReporter, Clock(), 2.0, scheduled=8)
    *_, before, last, end = capsys.readouterr().err.splitlines()
    assert before.endswith("25 a second, 0:00:04 to round 8")
    assert last.endswith("25 a second, draining")
    assert end.endswith("25 a second, draining")
    drive(JsonReporter, Clock(), 2.0, scheduled=8)
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["seconds_left"] is None


def test_the_remaining_time_is_estimated_for_each_batch(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with LineReporter(100, clock) as shown:
        for round_ in (1, 2, 9, 1, 2):
            clock.now += 5.0
            shown(Progress(round_, 3, 50, 10))
    lines = capsys.readouterr().err.splitlines()
    assert lines[3].endswith("10 a second")
    assert lines[4].endswith("0:00:40 to round 10")


def test_a_bar_that_never_started_ends_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    BarReporter(100, Clock()).close()
    assert "round" not in screen.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00:00"), (59.6, "0:01:00"), (3661.0, "1:01:01")])
def test_time_left_reads_as_a_clock(seconds: float, text: str) -> None:
    assert progress.clock_time(seconds) == text


def test_building_many_runs_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.api._SAY_SECONDS", 0.0)
    (tmp_path / "s.yaml").write_text(
        "name: many\nprotocol: {name: forwarding}\noverlay: {links: [[A, B]]}\nruns: {seeds: {count: 3}}\n"
    )
    said: list[str] = []
    api._build(prepare(tmp_path / "s.yaml"), {}, said.append)
    assert said[0] == "building 3 runs"
    assert said[-2] == "built 3 of 3 runs"
    assert said[-1].startswith("runs: the 3 seeds draw nothing")
