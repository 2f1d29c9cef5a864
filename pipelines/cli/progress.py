"""What a user sees of a run while it goes on: a bar, plain lines, JSON lines, or nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich import progress as bars
from rich.console import Console

LINE_SECONDS = 5.0
JSON_SECONDS = 1.0
BAR_SECONDS = 0.1


class RoundProgress(Protocol):
    """What the round engine reports after each round (`pipelines.rounds.Progress`)."""

    @property
    def round(self) -> int:
        """The round that was made."""

    @property
    def n_in_flight(self) -> int:
        """Messages in flight after it."""

    @property
    def n_handled(self) -> int:
        """Messages handled in it."""


class Form(StrEnum):
    """How progress is shown."""

    BAR = "bar"
    LINES = "lines"
    JSON = "json"
    NONE = "none"


@dataclass(frozen=True)
class Reading:
    """Progress at one moment.

    Attributes:
        round: The last round that was made.
        in_flight: Messages in flight.
        messages: Messages handled so far.
        messages_per_s: Messages handled a second since the last reading.
        seconds_left: Seconds until the horizon at the pace so far; the runs may end earlier. None after the first
            round, which comes with what an engine does once.
    """

    round: int
    in_flight: int
    messages: int
    messages_per_s: int
    seconds_left: float | None


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
    _read_at: float = 0.0
    _messages: int = 0
    _messages_read: int = 0
    _last: RoundProgress | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Starts the time."""
        self.start()

    def start(self) -> None:
        """Starts the time again: what came before is no part of the rounds."""
        self._read_at = self.clock()

    def add(self, progress: RoundProgress) -> Reading | None:
        """Counts a round; returns a reading when one is due."""
        self._messages += progress.n_handled
        self._last = progress
        self._first = self._first or (self.clock(), progress.round)
        return self._reading() if self.clock() - self._read_at >= self.every else None

    def rest(self) -> Reading | None:
        """Returns a reading of the rounds that are in none yet."""
        return self._reading() if self._last is not None else None

    def _reading(self) -> Reading | None:
        last, now = self._last, self.clock()
        if last is None:
            return None
        seconds = max(now - self._read_at, 1e-9)
        pace = round((self._messages - self._messages_read) / seconds)
        self._read_at, self._messages_read, self._last = now, self._messages, None
        return Reading(last.round, last.n_in_flight, self._messages, pace, self._seconds_left(now, last.round))

    def _seconds_left(self, now: float, round_: int) -> float | None:
        started, first = self._first or (now, round_)
        return None if round_ == first else (now - started) / (round_ - first) * (self.horizon - round_)


class Reporter:
    """Shows the progress of one run; an observer of rounds and a context manager. This one shows nothing."""

    def __call__(self, progress: RoundProgress) -> None:
        """Takes note of a round."""

    def note(self, text: str) -> None:
        """Says in one line what goes on before the rounds or after them."""

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

    def __call__(self, progress: RoundProgress) -> None:
        """Writes a line when one is due."""
        self._show(self._meter.add(progress))

    def note(self, text: str) -> None:
        """Writes the text as a line."""
        self._meter.start()
        self._write(text)

    def close(self) -> None:
        """Writes the last line."""
        self._show(self._meter.rest())

    def _show(self, reading: Reading | None) -> None:
        if reading is not None:
            left = "" if reading.seconds_left is None else f", at most {clock_time(reading.seconds_left)} left"
            self._write(
                f"round {reading.round} of at most {self._meter.horizon}, {reading.in_flight:,} in flight, "
                f"{reading.messages:,} messages, {reading.messages_per_s:,} a second{left}"
            )

    def _write(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class JsonReporter(LineReporter):
    """One JSON object a line, for programs."""

    def _show(self, reading: Reading | None) -> None:
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
            bars.TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
            bars.BarColumn(),
            bars.TextColumn("{task.fields[traffic]}"),
            bars.TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task: bars.TaskID | None = None

    def __call__(self, progress: RoundProgress) -> None:
        """Moves the bar when it is due."""
        if self._task is None:
            self._task = self._bar.add_task("", total=self._meter.horizon, traffic="")
            self._bar.start()
        self._show(self._meter.add(progress))

    def note(self, text: str) -> None:
        """Writes a line above the bar."""
        self._meter.start()
        self._console.print(text, style="dim", highlight=False, markup=False)

    def close(self) -> None:
        """Shows the last round and takes the bar away."""
        self._show(self._meter.rest())
        self._bar.stop()

    def _show(self, reading: Reading | None) -> None:
        if reading is not None and self._task is not None:
            traffic = f"{reading.in_flight:,} in flight  {reading.messages_per_s:,} messages/s"
            self._bar.update(self._task, completed=reading.round, traffic=traffic)


def reporter(form: Form, horizon: int, clock: Callable[[], float] = time.monotonic) -> Reporter:
    """Returns what shows a run's progress: on stderr, but JSON lines on stdout.

    Args:
        form: How.
        horizon: The last round that may happen.
        clock: Seconds that only go up.
    """
    match form:
        case Form.BAR:
            return BarReporter(Meter(horizon, BAR_SECONDS, clock), sys.stderr)
        case Form.LINES:
            return LineReporter(Meter(horizon, LINE_SECONDS, clock), sys.stderr)
        case Form.JSON:
            return JsonReporter(Meter(horizon, JSON_SECONDS, clock), sys.stdout)
        case Form.NONE:
            return Reporter()


def clock_time(seconds: float) -> str:
    """Returns seconds as ``h:mm:ss``."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
