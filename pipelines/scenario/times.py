"""Converts the times of a scenario, in milliseconds from the start or as timestamps, to rounds by its ``time`` part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field, Tag

from pipelines.contract.settings import MAX_ROUND, Positive, Strict, by_form
from pipelines.errors import Problem

EPOCH_SECONDS = 9e8
"""A number of seconds from which on times count from 1970, not from the start of a run: July 1998."""
_EPOCH_MS = EPOCH_SECONDS * 1000.0


def _iso(text: str) -> str:
    parse_iso(text)
    return text


def parse_iso(text: str) -> float:
    """Returns the milliseconds from 1970 to an ISO 8601 timestamp; without an offset it is UTC.

    Raises:
        ValueError: The text is no such timestamp.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        example = "2024-03-01T10:00:00.250Z"
        raise ValueError(
            f"{text!r} is no timestamp; allowed: ISO 8601 such as {example!r}, or a number of ms"
        ) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000.0


def _form(value: Any) -> str | None:  # noqa: ANN401 - any value of the file
    if isinstance(value, bool):
        return None
    return "<timestamp>" if isinstance(value, str) else "<number>" if isinstance(value, (int, float)) else None


Moment = Annotated[
    Annotated[Annotated[float, Field(ge=0.0, le=1e15, allow_inf_nan=False)], Tag("<number>")]
    | Annotated[Annotated[str, Field(max_length=50), AfterValidator(_iso)], Tag("<timestamp>")],
    by_form(_form),
]
"""Milliseconds from the start of a run, or from 1970 if there are that many; or an ISO 8601 timestamp."""


@dataclass(frozen=True)
class Clock:
    """How times become rounds.

    Attributes:
        round_ms: Milliseconds of a round.
        speed: Factor by which a run is faster than its recorded times.
        origin_ms: The time of round 0, in ms from 1970; None: the first timestamp of a file.
    """

    round_ms: float
    speed: float = 1.0
    origin_ms: float | None = None

    def exact(self, ms: float) -> float:
        """Returns the time in rounds of milliseconds from the start."""
        return ms / self.speed / self.round_ms


DEFAULT_CLOCK = Clock(round_ms=10.0)


def is_timestamp(moment: float | str | None) -> bool:
    """Returns whether a moment counts from 1970, not from the start."""
    return isinstance(moment, str) or (moment is not None and moment >= _EPOCH_MS)


def ms_from_start(moment: float | str, origin_ms: float) -> float:
    """Returns the milliseconds from the start to a moment; negative before it."""
    ms = parse_iso(moment) if isinstance(moment, str) else float(moment)
    return ms - origin_ms if is_timestamp(moment) else ms


class Timed(Strict):
    """A part of a scenario that happens in a round."""

    at_ms: Moment | None = Field(
        None,
        description="in place of round: ms from the start, or a timestamp in quotes ('2024-03-01T10:00:00Z') or in ms "
        "from 1970; it becomes the nearest round",
    )


class TimedSpan(Timed):
    """A part of a scenario that begins in a round and may end in another one."""

    until_ms: Moment | None = Field(None, description="in place of until, as at_ms")


class TimeSpec(Strict):
    """How long a run may last, and how times become rounds."""

    rounds: Annotated[int, Field(ge=1, le=MAX_ROUND, strict=True)] = Field(default=1000, description="the horizon")
    round_ms: Positive = Field(default=10.0, description="milliseconds of one round")
    origin: Moment | None = Field(
        default=None,
        description="the time of round 0, for timestamps; default: the first one of the one part that has timestamps",
    )
    speed: Positive = Field(default=1.0, description="how many times as fast as at_ms, until_ms and timestamps say")

    @property
    def clock(self) -> Clock:
        """How times become rounds; without an origin timestamps of lists have none."""
        return Clock(self.round_ms, self.speed, None if self.origin is None else ms_from_start(self.origin, 0.0))


Path = tuple[str | int, ...]
_LISTS: tuple[Path, ...] = (
    ("workload", "subscriptions"), ("workload", "publications"), ("workload", "joins"), ("workload", "calls"),
    ("workload", "moves"),
    ("faults",),
)  # fmt: skip
_KEYS = (("at_ms", "round"), ("until_ms", "until"))


def with_rounds(data: Any) -> Any:  # noqa: ANN401 - any value of the file
    """Returns the values of a scenario with ``round`` and ``until`` where only ``at_ms`` and ``until_ms`` are given.

    Invalid values stay unchanged: the model refuses them.

    Args:
        data: A mapping with the parts of a scenario; anything else is returned.
    """
    if not isinstance(data, Mapping) or not (found := list(_timed_items(data))):
        return data
    clock = _clock(data.get("time"), [item for _, item in found])
    changed: dict[Path, Any] = {path: _rounded(item, clock) for path, item in found}
    return _replaced(data, changed, ())


def _timed_items(data: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yields the items of lists that have a time in ms, with their paths."""
    for path in _LISTS:
        part: Any = data
        for step in path:
            part = part.get(step) if isinstance(part, Mapping) else None
        for index, item in enumerate(part if isinstance(part, (list, tuple)) else ()):
            if isinstance(item, Mapping) and any(item.get(key) is not None for key, _ in _KEYS):
                yield (*path, index), item


def _clock(given: Any, items: list[Mapping[str, Any]]) -> Clock:  # noqa: ANN401 - any value of the file
    """Returns the clock of the time part, the default one if the part is wrong."""
    try:
        clock = TimeSpec.model_validate({} if given is None else given).clock
    except ValueError:
        clock = TimeSpec().clock
    if clock.origin_ms is None:
        moments = [item.get(key) for item in items for key, _ in _KEYS]
        first = min((ms for moment in moments if (ms := _timestamp_ms(moment)) is not None), default=0.0)
        clock = Clock(clock.round_ms, clock.speed, first)
    return clock


def _moments(item: Timed) -> Mapping[str, Any]:
    return {key: getattr(item, key, None) for key, _ in _KEYS}


def _timestamp_ms(moment: Any) -> float | None:  # noqa: ANN401 - any value of the file
    try:
        return ms_from_start(moment, 0.0) if is_timestamp(moment) else None
    except (ValueError, TypeError):
        return None


def _rounded(item: Mapping[str, Any], clock: Clock) -> dict[str, Any]:
    rounded = dict(item)
    for key, name in _KEYS:
        moment = item.get(key)
        if moment is None or name in item:
            continue
        try:
            exact = clock.exact(ms_from_start(moment, clock.origin_ms or 0.0))
        except (ValueError, TypeError):
            exact = 0.0
        rounded[name] = int(min(max(exact + 0.5, 0.0), MAX_ROUND))
    if "until_ms" in item and "until" not in item and _is_later(item, clock):
        rounded["until"] = max(rounded["until"], rounded.get("round", 0) + 1)
    return rounded


def _is_later(item: Mapping[str, Any], clock: Clock) -> bool:
    """Returns whether the end of an item is after its begin, by ms if both are given so."""
    try:
        begin = ms_from_start(item.get("at_ms", 0.0), clock.origin_ms or 0.0)
        return "at_ms" in item and ms_from_start(item["until_ms"], clock.origin_ms or 0.0) > begin
    except (ValueError, TypeError):
        return False


def _replaced(part: Any, changed: Mapping[Path, Any], path: Path) -> Any:  # noqa: ANN401 - any value of the file
    if path in changed:
        return changed[path]
    if not any(one[: len(path)] == path for one in changed):
        return part
    if isinstance(part, Mapping):
        return {key: _replaced(value, changed, (*path, key)) for key, value in part.items()}
    return [_replaced(value, changed, (*path, index)) for index, value in enumerate(part)]


def time_problems(time: TimeSpec, items: Iterator[tuple[Path, Strict]]) -> Iterator[Problem]:
    """Yields parts whose rounds and milliseconds differ, and those before the start.

    Args:
        time: The time part.
        items: The items of lists with their paths; those that are not `Timed` are left out.
    """
    timed = [(path, item) for path, item in items if isinstance(item, Timed)]
    clock = _clock(time, [_moments(item) for _, item in timed])
    for path, item in timed:
        for key, name in _KEYS:
            moment = getattr(item, key, None)
            if moment is None:
                continue
            exact = clock.exact(ms_from_start(moment, clock.origin_ms or 0.0))
            given = getattr(item, name)
            if exact < -0.5:
                message = (
                    f"{key} is {-exact * clock.round_ms * clock.speed:g} ms before the start; set time.origin to it"
                )
                yield Problem((*path, key), f"{message} or earlier, or leave the part out")
            elif abs(exact - given) > 1.0 + 1e-9:
                message = f"{key} is round {exact:g}, and {name} is {given}; allowed: one of the two, so leave one out"
                yield Problem((*path, name), message)


def listed_timestamps(items: Iterator[tuple[Path, Strict]]) -> Iterator[Path]:
    """Yields the paths of times in lists that count from 1970."""
    for path, item in items:
        for key, _ in _KEYS if isinstance(item, Timed) else ():
            if is_timestamp(getattr(item, key, None)):
                yield (*path, key)


def rounding_error_ms(time: TimeSpec, items: Iterator[tuple[Path, Strict]]) -> tuple[float, Path]:
    """Returns by how many ms the round of a listed part is away from its time at most, and the part's path."""
    timed = [(path, item) for path, item in items if isinstance(item, Timed)]
    clock = _clock(time, [_moments(item) for _, item in timed])
    worst: tuple[float, Path] = (0.0, ())
    for path, item in timed:
        for key, name in _KEYS:
            if (moment := getattr(item, key, None)) is not None:
                exact = clock.exact(ms_from_start(moment, clock.origin_ms or 0.0))
                worst = max(worst, (abs(exact - getattr(item, name)) * clock.round_ms, path), key=lambda one: one[0])
    return worst
