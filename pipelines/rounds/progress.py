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
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, Self

from rich import progress as bars
from rich.console import Console


@dataclass(frozen=True)
class Progress:
    """The progress of a run after a job.

    Attributes:
        round: The last executed round.
        n_in_flight: The number of messages in flight after that round.
        n_handled: The number of messages that nodes handled in the job. In the first job after the loss of an
            executor, this number is reduced by the messages of the rounds that are executed again.
        scheduled_round: The last round with a call or a fault.
    """

    round: int
    n_in_flight: int
    n_handled: int
    scheduled_round: int


@dataclass(frozen=True)
class ProgressReading:
    """The progress of a run at one time, with the terms of `Progress`.

    Attributes:
        messages: The number of messages handled since the start.
        messages_per_s: The number of messages handled per second since the last reading.
        seconds_left: The estimated seconds until round `scheduled`. None while the runs drain, and after the first job,
            because its duration includes the start of the engine.
    """

    round: int
    in_flight: int
    messages: int
    messages_per_s: int
    scheduled: int
    seconds_left: float | None


class Reporter:
    """A context manager that shows the progress of one run every `seconds`. This base class shows nothing."""

    seconds = 1.0

    def __init__(self, horizon: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts the clock of the first reading; `horizon` is the greatest round number."""
        self._horizon, self._clock = horizon, clock
        self._first: tuple[float, int] | None = None
        self._round, self._messages, self._messages_read = -1, 0, 0
        self._last: Progress | None = None
        self._read_at = clock()

    def __call__(self, progress: Progress) -> None:
        """Receives the progress after a job; shows a reading if `seconds` have passed since the last reading."""
        self._messages += progress.n_handled
        self._last = progress
        if self._first is None or progress.round <= self._round:  # the first job of the runs, or of another batch
            self._first = self._clock(), progress.round
        self._round = progress.round
        if self._clock() - self._read_at >= self.seconds:
            self._show_rest()

    def note(self, text: str) -> None:
        """Shows `text`, a status line such as ``building 100 runs``; the next reading excludes the time before it."""
        self._read_at = self._clock()
        self._tell(text)

    def close(self) -> None:
        """Shows the final progress at the end of the run."""
        self._show_rest()

    def _show_rest(self) -> None:
        """Shows a reading if a job was added since the last reading."""
        last, now = self._last, self._clock()
        if last is None:
            return
        pace = round(max(self._messages - self._messages_read, 0) / max(now - self._read_at, 1e-9))
        self._read_at, self._messages_read, self._last = now, self._messages, None
        round_, scheduled = last.round, last.scheduled_round
        started, first = self._first or (now, round_)
        is_known = round_ != first and round_ < scheduled
        left = (now - started) / (round_ - first) * (scheduled - round_) if is_known else None
        self._show(ProgressReading(round_, last.n_in_flight, self._messages, pace, scheduled, left))

    def _show(self, reading: ProgressReading) -> None:
        pass

    def _tell(self, text: str) -> None:
        pass

    def __enter__(self) -> Self:
        """Returns the reporter."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the reporter."""
        self.close()


class LineReporter(Reporter):
    """Writes one line to stderr every few seconds, for logs."""

    seconds = 5.0

    def _show(self, reading: ProgressReading) -> None:
        left = _time_left(reading)
        self._tell(
            f"round {reading.round} of at most {self._horizon}, {reading.in_flight:,} in flight, "
            f"{reading.messages:,} messages, {reading.messages_per_s:,} a second{f', {left}' if left else ''}"
        )

    def _tell(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class JsonReporter(Reporter):
    """Writes one JSON object per line to stdout, for programs."""

    def _show(self, reading: ProgressReading) -> None:
        left = None if reading.seconds_left is None else round(reading.seconds_left, 1)
        event = {"event": "round", "horizon": self._horizon, **asdict(reading), "seconds_left": left}
        print(json.dumps(event), flush=True)

    def _tell(self, text: str) -> None:
        print(json.dumps({"event": "note", "text": text}, ensure_ascii=False), flush=True)


class BarReporter(Reporter):
    """Shows a progress bar of the rounds on stderr, a terminal, and removes it at the end."""

    seconds = 0.1

    def __init__(self, horizon: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepares the bar, which the first job shows."""
        super().__init__(horizon, clock)
        self._console = Console(file=sys.stderr)
        self._bar = bars.Progress(
            bars.TextColumn("round {task.fields[round]}"), bars.BarColumn(), bars.TextColumn("{task.fields[traffic]}"),
            console=self._console, transient=True,
        )  # fmt: skip
        self._task: bars.TaskID | None = None

    def __call__(self, progress: Progress) -> None:
        """Shows the bar after the first job, and updates it as in the base class."""
        if self._task is None:
            self._task = self._bar.add_task("", total=progress.scheduled_round, round="", traffic="")
            self._begin()
        super().__call__(progress)

    def close(self) -> None:
        """Shows the final progress and removes the bar."""
        super().close()
        self._bar.stop()

    def _begin(self) -> None:
        self._bar.start()

    def _tell(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False, markup=False)

    def _show(self, reading: ProgressReading) -> None:
        if self._task is not None:
            shares = f"{reading.in_flight:,} in flight", f"{reading.messages_per_s:,} messages/s", _time_left(reading)
            self._bar.update(
                self._task,
                total=reading.scheduled,
                completed=min(reading.round, reading.scheduled),
                round=f"{reading.round}/{self._horizon}",
                traffic="  ".join(share for share in shares if share),
            )


class NotebookReporter(BarReporter):
    """Shows a progress bar of the rounds in the output of a notebook cell; the bar remains after the run.

    Each update replaces the bar in the cell. The notebook bar of package rich is not used: it requires ipywidgets.
    """

    seconds = 0.5
    _output: Any = None

    def close(self) -> None:
        """Shows the final progress in the cell."""
        self._show_rest()

    def _begin(self) -> None:
        self._output = import_module("IPython.display").display(self._bar, display_id=True)

    def _show(self, reading: ProgressReading) -> None:
        super()._show(reading)
        if self._output is not None:
            self._output.update(self._bar)


def is_notebook() -> bool:
    """Returns whether an IPython kernel runs this process, as in Jupyter and on Databricks."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and (hasattr(shell, "kernel") or "DATABRICKS_RUNTIME_VERSION" in os.environ)


def _time_left(reading: ProgressReading) -> str:
    """Returns a phrase for the estimated time until the last call or fault, or ``draining`` after that round."""
    if reading.round >= reading.scheduled:
        return "draining"
    return "" if reading.seconds_left is None else f"{clock_time(reading.seconds_left)} to round {reading.scheduled}"


def clock_time(seconds: float) -> str:
    """Returns a duration of `seconds` as ``h:mm:ss``."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
