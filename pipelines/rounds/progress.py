"""Progress of a run, and reporters that show it: a bar in a terminal or notebook, plain lines, or JSON lines.

The remaining time is estimated up to the last round with a call or a fault. After that round the runs drain: they end
when no message is in flight. The last round is unknown in advance, and usually long before the horizon.
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
from typing import Any, Self, TextIO

from rich import progress as bars
from rich.console import Console

LINE_SECONDS = 5.0
JSON_SECONDS = 1.0
BAR_SECONDS = 0.1
NOTEBOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Progress:
    """The progress of a run after a job.

    Attributes:
        round: The last executed round.
        n_in_flight: The number of messages in flight after that round.
        n_handled: The number of messages that nodes handled in the job.
        scheduled_round: The last round with a call or a fault.
    """

    round: int
    n_in_flight: int
    n_handled: int
    scheduled_round: int


class ProgressForm(StrEnum):
    """The format in which progress is shown."""

    BAR = "bar"
    NOTEBOOK = "notebook"
    LINES = "lines"
    JSON = "json"
    NONE = "none"


@dataclass(frozen=True)
class ProgressReading:
    """The progress of a run at one time, computed by `Meter`.

    Attributes:
        round: The last executed round.
        in_flight: The number of messages in flight.
        messages: The number of messages handled since the start.
        messages_per_s: The number of messages handled per second since the last reading.
        scheduled: The last round with a call or a fault; after it the runs drain.
        seconds_left: The estimated seconds until round `scheduled`. None while the runs drain, and after the first job,
            because its duration includes the start of the engine.
    """

    round: int
    in_flight: int
    messages: int
    messages_per_s: int
    scheduled: int
    seconds_left: float | None


@dataclass
class Meter:
    """Adds up the progress of jobs, and returns a `ProgressReading` every few seconds.

    Attributes:
        horizon: The greatest round number.
        every: The seconds between two readings.
        clock: Returns monotonic seconds.
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
        """Starts the clock of the first reading."""
        self.start()

    def start(self) -> None:
        """Restarts the clock, so that the next reading does not include the time before the call."""
        self._read_at = self.clock()

    def add(self, progress: Progress) -> ProgressReading | None:
        """Adds the progress of a job.

        Returns a reading if `every` seconds have passed since the last reading, else None.
        """
        self._messages += progress.n_handled
        self._last = progress
        if self._first is None or progress.round <= self._round:  # the first job of the runs, or of another batch
            self._first = self.clock(), progress.round
        self._round = progress.round
        return self.rest() if self.clock() - self._read_at >= self.every else None

    def rest(self) -> ProgressReading | None:
        """Returns a reading, or None if no job was added since the last reading."""
        last, now = self._last, self.clock()
        if last is None:
            return None
        pace = round((self._messages - self._messages_read) / max(now - self._read_at, 1e-9))
        self._read_at, self._messages_read, self._last = now, self._messages, None
        round_, scheduled = last.round, last.scheduled_round
        started, first = self._first or (now, round_)
        is_known = round_ != first and round_ < scheduled
        left = (now - started) / (round_ - first) * (scheduled - round_) if is_known else None
        return ProgressReading(round_, last.n_in_flight, self._messages, pace, scheduled, left)


class Reporter:
    """A context manager that shows the progress of one run. This base class shows nothing."""

    def __call__(self, progress: Progress) -> None:
        """Receives the progress after a job."""

    def note(self, text: str) -> None:
        """Receives `text`, a status line such as ``building 100 runs``. This base class ignores it."""

    def close(self) -> None:
        """Shows the final progress at the end of the run."""

    def __enter__(self) -> Self:
        """Returns the reporter."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the reporter."""
        self.close()


class LineReporter(Reporter):
    """Writes one line every few seconds, for logs."""

    def __init__(self, meter: Meter, stream: TextIO) -> None:
        """Sets the stream to which the lines are written."""
        self._meter = meter
        self._stream = stream

    def __call__(self, progress: Progress) -> None:
        """Writes a line if `Meter.every` seconds have passed since the last line."""
        self._show(self._meter.add(progress))

    def note(self, text: str) -> None:
        """Writes `text` as a line."""
        self._meter.start()
        self._write(text)

    def close(self) -> None:
        """Writes the final progress as a line."""
        self._show(self._meter.rest())

    def _show(self, reading: ProgressReading | None) -> None:
        if reading is not None:
            left = _time_left(reading)
            self._write(
                f"round {reading.round} of at most {self._meter.horizon}, {reading.in_flight:,} in flight, "
                f"{reading.messages:,} messages, {reading.messages_per_s:,} a second{f', {left}' if left else ''}"
            )

    def _write(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class JsonReporter(LineReporter):
    """Writes one JSON object per line, for programs."""

    def _show(self, reading: ProgressReading | None) -> None:
        if reading is not None:
            left = None if reading.seconds_left is None else round(reading.seconds_left, 1)
            event = {"event": "round", "horizon": self._meter.horizon, **asdict(reading), "seconds_left": left}
            self._write(json.dumps(event))

    def note(self, text: str) -> None:
        """Writes the JSON object ``{"event": "note", "text": text}``."""
        self._meter.start()
        self._write(json.dumps({"event": "note", "text": text}, ensure_ascii=False))


class BarReporter(Reporter):
    """Shows a progress bar of the rounds on a terminal, and removes it at the end."""

    def __init__(self, meter: Meter, stream: TextIO) -> None:
        """Sets the terminal on which the bar is drawn."""
        self._meter = meter
        self._console = Console(file=stream)
        self._bar = bars.Progress(
            bars.TextColumn("round {task.fields[round]}"), bars.BarColumn(), bars.TextColumn("{task.fields[traffic]}"),
            console=self._console, transient=True,
        )  # fmt: skip
        self._task: bars.TaskID | None = None

    def __call__(self, progress: Progress) -> None:
        """Updates the bar if `Meter.every` seconds have passed since the last update."""
        if self._task is None:
            self._task = self._bar.add_task("", total=progress.scheduled_round, round="", traffic="")
            self._begin()
        self._show(self._meter.add(progress))

    def note(self, text: str) -> None:
        """Writes `text` as a line above the bar."""
        self._meter.start()
        self._console.print(text, style="dim", highlight=False, markup=False)

    def close(self) -> None:
        """Shows the final progress and removes the bar."""
        self._show(self._meter.rest())
        self._bar.stop()

    def _begin(self) -> None:
        self._bar.start()

    def _show(self, reading: ProgressReading | None) -> None:
        if reading is not None and self._task is not None:
            shares = f"{reading.in_flight:,} in flight", f"{reading.messages_per_s:,} messages/s", _time_left(reading)
            self._bar.update(
                self._task,
                total=reading.scheduled,
                completed=min(reading.round, reading.scheduled),
                round=f"{reading.round}/{self._meter.horizon}",
                traffic="  ".join(share for share in shares if share),
            )


class NotebookReporter(BarReporter):
    """Shows a progress bar of the rounds in the output of a notebook cell; the bar remains after the run.

    Each update replaces the bar in the cell. The notebook bar of package rich is not used: it requires ipywidgets.
    """

    def __init__(self, meter: Meter) -> None:
        """Creates a bar that is drawn below the running cell."""
        super().__init__(meter, sys.stderr)
        self._output: Any = None

    def close(self) -> None:
        """Shows the final progress in the cell."""
        self._show(self._meter.rest())

    def _begin(self) -> None:
        self._output = import_module("IPython.display").display(self._bar, display_id=True)

    def _show(self, reading: ProgressReading | None) -> None:
        super()._show(reading)
        if reading is not None and self._output is not None:
            self._output.update(self._bar)


def is_notebook() -> bool:
    """Returns whether an IPython kernel runs this process, as in Jupyter and on Databricks."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and (hasattr(shell, "kernel") or "DATABRICKS_RUNTIME_VERSION" in os.environ)


def reporter(form: ProgressForm, horizon: int, clock: Callable[[], float] = time.monotonic) -> Reporter:
    """Returns a reporter of form `form`.

    Bars and plain lines go to stderr, and JSON lines to stdout. The bar of a notebook appears below the running cell.
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


def _time_left(reading: ProgressReading) -> str:
    """Returns a phrase for the estimated time until the last call or fault, or ``draining`` after that round."""
    if reading.round >= reading.scheduled:
        return "draining"
    return "" if reading.seconds_left is None else f"{clock_time(reading.seconds_left)} to round {reading.scheduled}"


def clock_time(seconds: float) -> str:
    """Returns a duration of `seconds` as ``h:mm:ss``."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
