"""The four forms in which a run shows its progress."""

from __future__ import annotations

import io
import json
import sys

import pytest

from pipelines.cli import progress
from pipelines.cli.progress import BarReporter, Form, Meter, reporter
from pipelines.rounds.progress import Progress


class Clock:
    """Time that goes on when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drive(form: Form, clock: Clock, seconds: float, rounds: int = 10) -> None:
    with reporter(form, 100, clock) as shown:
        shown.note("starting")
        for round_ in range(1, rounds + 1):
            clock.now += seconds
            shown(Progress(round_, 3, 50))


def test_lines_come_every_few_seconds_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    drive(Form.LINES, Clock(), 2.0)
    captured = capsys.readouterr()
    assert captured.out == ""
    # Three rounds of two seconds make a line; the last round comes when the reporter is closed.
    assert captured.err.splitlines() == [
        "starting",
        "round 3 of at most 100, 3 in flight, 150 messages, 25 a second, at most 0:03:14 left",
        "round 6 of at most 100, 3 in flight, 300 messages, 25 a second, at most 0:03:08 left",
        "round 9 of at most 100, 3 in flight, 450 messages, 25 a second, at most 0:03:02 left",
        "round 10 of at most 100, 3 in flight, 500 messages, 25 a second, at most 0:03:00 left",
    ]


def test_a_first_round_tells_nothing_about_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    drive(Form.LINES, Clock(), 60.0, rounds=1)
    assert capsys.readouterr().err.splitlines()[1:] == ["round 1 of at most 100, 3 in flight, 50 messages, 1 a second"]


def test_json_lines_are_objects_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    drive(Form.JSON, Clock(), 0.4)
    captured = capsys.readouterr()
    assert captured.err == ""
    events = [json.loads(line) for line in captured.out.splitlines()]
    assert events[0] == {"event": "note", "text": "starting"}
    assert [event["round"] for event in events[1:]] == [3, 6, 9, 10]
    assert events[1] == {
        "event": "round", "round": 3, "horizon": 100, "in_flight": 3, "messages": 150, "messages_per_s": 125,
        "seconds_left": 38.8,
    }  # fmt: skip


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    drive(Form.NONE, Clock(), 10.0)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    drive(Form.BAR, Clock(), 1.0)
    shown = screen.getvalue()
    assert "starting" in shown
    assert "round 10/100" in shown
    assert "3 in flight  50 messages/s" in shown


def test_a_bar_that_never_started_ends_in_silence() -> None:
    screen = Terminal()
    BarReporter(Meter(100, progress.BAR_SECONDS, Clock()), screen).close()
    assert "round" not in screen.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00:00"), (59.6, "0:01:00"), (3661.0, "1:01:01")])
def test_time_left_reads_as_a_clock(seconds: float, text: str) -> None:
    assert progress.clock_time(seconds) == text
