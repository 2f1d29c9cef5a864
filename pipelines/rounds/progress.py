"""Progress of a run, and how it is shown: a bar in a terminal or a notebook, plain lines, JSON lines, or nothing.

The time left is that to the last call or fault. After it the runs drain, and end when nothing is in flight. When that
is cannot be told; the horizon is usually much later.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from importlib import import_module
from types import TracebackType
from typing import Any, Self, TextIO

from rich import progress as bars
from rich.console import Console

LINE_SECONDS = 5.0
JSON_SECONDS = 1.0
BAR_SECONDS = 0.1
NOTEBOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Progress:
    """The progress after a round, or after a block of rounds.

    Attributes:
        round: The last round that was played.
        n_in_flight: Messages in flight after it.
        n_handled: Messages handled since the progress before.
        scheduled_round: The last round with a call or a fault; after it the runs end as soon as nothing can happen.
    """

    round: int
    n_in_flight: int
    n_handled: int
    scheduled_round: int


class ProgressForm(StrEnum):
    """How progress is shown."""

    BAR = "bar"
    NOTEBOOK = "notebook"
    LINES = "lines"
    JSON = "json"
    NONE = "none"


@dataclass(frozen=True)
class ProgressReading:
    """Progress at one moment.

    Attributes:
        round: The last round that was made.
        in_flight: Messages in flight.
        messages: Messages handled so far.
        messages_per_s: Messages handled a second since the last reading.
        scheduled: The last round with a call or a fault. After it the runs drain: they end when nothing is in flight.
        seconds_left: Seconds until then at the pace so far. None after the first round, which comes with what an engine
            does once, and while the runs drain, which nobody can foretell.
    """

    round: int
    in_flight: int
    messages: int
    messages_per_s: int
    scheduled: int
    seconds_left: float | None

    @property
    def is_draining(self) -> bool:
        """Whether neither call nor fault is to come."""
        return self.round >= self.scheduled


@dataclass
class Meter:
    """Adds up rounds and says when the next reading is due.

    Attributes:
        horizon: The last round that may happen.
        every: Seconds between readings.
        clock: Seconds that only go up.
    """

    horizon: int
    every: float
    clock: Callable[[], float] = time.monotonic
    _first: tuple[float, int] | None = None
    _round: int = -1
    _read_at: float = 0.0
    _messages: int = 0
    _messages_read: int = 0
    _last: Progress | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Starts the time."""
        self.start()

    def start(self) -> None:
        """Starts the time again: what came before is no part of the rounds."""
        self._read_at = self.clock()

    def add(self, progress: Progress) -> ProgressReading | None:
        """Counts a round; returns a reading when one is due."""
        self._messages += progress.n_handled
        self._last = progress
        if self._first is None or progress.round <= self._round:  # the first of the runs, or of another batch
            self._first = self.clock(), progress.round
        self._round = progress.round
        return self._reading() if self.clock() - self._read_at >= self.every else None

    def rest(self) -> ProgressReading | None:
        """Returns a reading of the rounds that are in none yet."""
        return self._reading() if self._last is not None else None

    def _reading(self) -> ProgressReading | None:
        last, now = self._last, self.clock()
        if last is None:
            return None
        seconds = max(now - self._read_at, 1e-9)
        pace = round((self._messages - self._messages_read) / seconds)
        self._read_at, self._messages_read, self._last = now, self._messages, None
        left = self._seconds_left(now, last.round, last.scheduled_round)
        return ProgressReading(last.round, last.n_in_flight, self._messages, pace, last.scheduled_round, left)

    def _seconds_left(self, now: float, round_: int, scheduled: int) -> float | None:
        started, first = self._first or (now, round_)
        return None if round_ in (first, scheduled) or round_ > scheduled else (
            (now - started) / (round_ - first) * (scheduled - round_)
        )  # fmt: skip


class Reporter:
    """Shows the progress of one run; an observer of rounds and a context manager. This one shows nothing."""

    def __call__(self, progress: Progress) -> None:
        """Takes note of a round."""

    def note(self, text: str) -> None:
        """Prints a line about work before or after the rounds."""

    def close(self) -> None:
        """Shows what was not shown yet."""

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()


class LineReporter(Reporter):
    """One line every few seconds, for logs."""

    def __init__(self, meter: Meter, stream: TextIO) -> None:
        """Writes to a stream."""
        self._meter = meter
        self._stream = stream

    def __call__(self, progress: Progress) -> None:
        """Writes a line when one is due."""
        self._show(self._meter.add(progress))

    def note(self, text: str) -> None:
        """Writes the text as a line."""
        self._meter.start()
        self._write(text)

    def close(self) -> None:
        """Writes the last line."""
        self._show(self._meter.rest())

    def _show(self, reading: ProgressReading | None) -> None:
        if reading is not None:
            left = _left(reading)
            self._write(
                f"round {reading.round} of at most {self._meter.horizon}, {reading.in_flight:,} in flight, "
                f"{reading.messages:,} messages, {reading.messages_per_s:,} a second{f', {left}' if left else ''}"
            )

    def _write(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class JsonReporter(LineReporter):
    """One JSON object a line, for programs."""

    def _show(self, reading: ProgressReading | None) -> None:
        if reading is not None:
            left = None if reading.seconds_left is None else round(reading.seconds_left, 1)
            event = {"event": "round", "horizon": self._meter.horizon, **asdict(reading), "seconds_left": left}
            self._write(json.dumps(event))

    def note(self, text: str) -> None:
        """Writes the text as an event."""
        self._meter.start()
        self._write(json.dumps({"event": "note", "text": text}, ensure_ascii=False))


class BarReporter(Reporter):
    """A bar over the rounds, for terminals; it goes away at the end."""

    def __init__(self, meter: Meter, stream: TextIO) -> None:
        """Draws on a terminal."""
        self._meter = meter
        self._console = Console(file=stream)
        self._bar = bars.Progress(
            bars.TextColumn("round {task.fields[round]}"),
            bars.BarColumn(),
            bars.TextColumn("{task.fields[traffic]}"),
            console=self._console,
            transient=True,
        )
        self._task: bars.TaskID | None = None

    def __call__(self, progress: Progress) -> None:
        """Moves the bar when it is due."""
        if self._task is None:
            self._task = self._bar.add_task("", total=progress.scheduled_round, round="", traffic="")
            self._begin()
        self._show(self._meter.add(progress))

    def note(self, text: str) -> None:
        """Writes a line above the bar."""
        self._meter.start()
        self._console.print(text, style="dim", highlight=False, markup=False)

    def close(self) -> None:
        """Shows the last round and takes the bar away."""
        self._show(self._meter.rest())
        self._bar.stop()

    def _begin(self) -> None:
        self._bar.start()

    def _show(self, reading: ProgressReading | None) -> None:
        if reading is not None and self._task is not None:
            shares = f"{reading.in_flight:,} in flight", f"{reading.messages_per_s:,} messages/s", _left(reading)
            self._bar.update(
                self._task,
                total=reading.scheduled,
                completed=min(reading.round, reading.scheduled),
                round=f"{reading.round}/{self._meter.horizon}",
                traffic="  ".join(share for share in shares if share),
            )


class NotebookReporter(BarReporter):
    """A bar over the rounds, as output of a cell; the last round stays.

    The cell's output is replaced: rich's own way to do so needs a package of widgets.
    """

    def __init__(self, meter: Meter) -> None:
        """Draws below the cell that runs."""
        super().__init__(meter, sys.stderr)
        self._output: Any = None

    def close(self) -> None:
        """Shows the last round."""
        self._show(self._meter.rest())

    def _begin(self) -> None:
        self._output = import_module("IPython.display").display(self._bar, display_id=True)

    def _show(self, reading: ProgressReading | None) -> None:
        super()._show(reading)
        if reading is not None and self._output is not None:
            self._output.update(self._bar)


def is_notebook() -> bool:
    """Returns whether a kernel of IPython runs this program, as in Jupyter and on Databricks."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and (hasattr(shell, "kernel") or "DATABRICKS_RUNTIME_VERSION" in os.environ)


def reporter(form: ProgressForm, horizon: int, clock: Callable[[], float] = time.monotonic) -> Reporter:
    """Returns the reporter of a form: it writes to stderr, but JSON lines on stdout, and in a notebook below the cell.

    Args:
        form: How.
        horizon: The last round that may happen.
        clock: Seconds that only go up.
    """
    match form:
        case ProgressForm.BAR:
            return BarReporter(Meter(horizon, BAR_SECONDS, clock), sys.stderr)
        case ProgressForm.NOTEBOOK:
            return NotebookReporter(Meter(horizon, NOTEBOOK_SECONDS, clock))
        case ProgressForm.LINES:
            return LineReporter(Meter(horizon, LINE_SECONDS, clock), sys.stderr)
        case ProgressForm.JSON:
            return JsonReporter(Meter(horizon, JSON_SECONDS, clock), sys.stdout)
        case ProgressForm.NONE:
            return Reporter()


def _left(reading: ProgressReading) -> str:
    """Returns the time to the last call or fault in words, or that the runs drain."""
    if reading.is_draining:
        return "draining"
    return "" if reading.seconds_left is None else f"{clock_time(reading.seconds_left)} to round {reading.scheduled}"


def clock_time(seconds: float) -> str:
    """Returns seconds as ``h:mm:ss``."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
