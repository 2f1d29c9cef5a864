"""Converts the times in a scenario, milliseconds and timestamps, to rounds according to part ``time``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from pipelines.contract.settings import BY_FORM, MAX_ROUND, Positive, Strict
from pipelines.errors import KeyPath, Problem

EPOCH_MS = 9e11
"""Milliseconds from 1970 to July 1998. Times of at least this value count from 1970, others from a run's start."""
MS_OF = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6}
"""Milliseconds of each unit of time."""


def _iso(text: str) -> str:
    parse_iso(text)
    return text


def parse_iso(text: str) -> float:
    """Returns the milliseconds from 1970 to an ISO 8601 timestamp; a timestamp without an offset is in UTC.

    Raises:
        ValueError: `text` is not an ISO 8601 timestamp.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        allowed = "ISO 8601 such as '2024-03-01T10:00:00.250Z', or a number of ms"
        raise ValueError(f"{text!r} is not a timestamp; allowed: {allowed}") from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000.0


Moment = Annotated[
    Annotated[float, Field(ge=0.0, le=1e15, allow_inf_nan=False)]
    | Annotated[str, Field(max_length=50), AfterValidator(_iso)],
    BY_FORM,
]
"""A number of milliseconds, or an ISO 8601 timestamp.

A number is a time since 1970 if it is at least `EPOCH_MS`, else a time since the start of the run."""


def is_timestamp(moment: float | str | None) -> bool:
    """Returns whether `moment` is a date and time, or a number of ms since 1970, that is, at least `EPOCH_MS`."""
    return isinstance(moment, str) or (moment is not None and moment >= EPOCH_MS)


def ms_from_start(moment: float | str, origin_ms: float) -> float:
    """Returns the milliseconds from the start of the run to `moment`; negative for a moment before the start."""
    ms = parse_iso(moment) if isinstance(moment, str) else float(moment)
    return ms - origin_ms if is_timestamp(moment) else ms


class Timed(Strict):
    """A part of a scenario that happens in a round; `at_ms` can give the round as a time."""

    at_ms: Moment | None = Field(
        None,
        description="replaces round; a time, which is rounded to the nearest round: ms from the start of the run, ms "
        "from 1970, or a quoted timestamp ('2024-03-01T10:00:00Z')",
    )


class TimedSpan(Timed):
    """A part of a scenario that begins in a round and can end in a later round; `until` or `until_ms` gives its end."""

    until_ms: Moment | None = Field(None, description="replaces until; a time, as in at_ms")


class TimeSpec(Strict):
    """The length of a run in rounds, and the conversion of times to rounds."""

    rounds: Annotated[int, Field(ge=1, le=MAX_ROUND, strict=True)] = Field(
        default=1000, description="the horizon: the last round of a run"
    )
    round_ms: Positive = Field(default=10.0, description="milliseconds of one round")
    origin: Moment | None = Field(
        default=None,
        description="time of round 0; default: the first timestamp of the scenario; required if several parts of the "
        "scenario have timestamps",
    )
    speed: Positive = Field(
        default=1.0, description="factor by which a run is faster than the recorded times; 2 halves the times"
    )

    @property
    def origin_ms(self) -> float | None:
        """The time of round 0, in ms from 1970; None stands for the first timestamp of a file."""
        return None if self.origin is None else ms_from_start(self.origin, 0.0)

    def with_origin(self, origin_ms: float | None) -> TimeSpec:
        """Returns the times with `origin_ms` as the time of round 0, unless the scenario sets this time."""
        return self if self.origin is not None else self.model_copy(update={"origin": origin_ms})

    def exact(self, moment: float | str) -> float:
        """Returns the round of `moment`, with fractions; times from 1970 count from the origin, or from 1970."""
        return self.in_rounds(ms_from_start(moment, self.origin_ms or 0.0))

    def in_rounds(self, ms: float) -> float:
        """Returns the number of rounds, with fractions, in `ms` milliseconds of recorded time."""
        return ms / self.speed / self.round_ms


CALLS = ("subscriptions", "publications", "joins", "moves", "calls")
"""The parts of a workload that contain calls."""
_KEYS = (("at_ms", "round"), ("until_ms", "until"))


def with_rounds(data: Any) -> Any:  # noqa: ANN401 - any value of the file
    """Adds ``round`` and ``until``, computed from ``at_ms`` and ``until_ms``, to the values of a scenario.

    The function computes only the rounds that the scenario does not set. Invalid values stay unchanged, because the
    model reports them later.
    """
    if not isinstance(data, Mapping):
        return data
    workload = given if isinstance(given := data.get("workload"), Mapping) else {}
    parts = {**{name: workload.get(name) for name in CALLS}, "faults": data.get("faults")}
    lists = {name: part for name, part in parts.items() if isinstance(part, (list, tuple))}
    items = [item for part in lists.values() for item in part if isinstance(item, Mapping)]
    moments = [moment for item in items for key, _ in _KEYS if (moment := item.get(key)) is not None]
    if not moments:
        return data
    time = _time(data.get("time"), moments)
    changed = {
        name: [_rounded(item, time) if isinstance(item, Mapping) else item for item in part]
        for name, part in lists.items()
    }
    faults = {"faults": changed.pop("faults")} if "faults" in changed else {}
    return {**data, **faults, **({"workload": {**workload, **changed}} if changed else {})}


def _time(given: Any, moments: Iterable[Any]) -> TimeSpec:  # noqa: ANN401 - any value of the file
    try:
        time = TimeSpec.model_validate({} if given is None else given)
    except ValueError:
        time = TimeSpec()
    return time.with_origin(min((ms for moment in moments if (ms := _timestamp_ms(moment)) is not None), default=0.0))


def _moments(items: Iterable[tuple[KeyPath, Strict]]) -> Iterator[tuple[KeyPath, str, str, float | str, int]]:
    """Yields (path of the item, key of the time, key of the round, time, round) for each time in `items`."""
    for path, item in items:
        for key, name in _KEYS if isinstance(item, Timed) else ():
            if (moment := getattr(item, key, None)) is not None:
                yield path, key, name, moment, getattr(item, name)


def _exact(time: TimeSpec, items: Iterable[tuple[KeyPath, Strict]]) -> Iterator[tuple[KeyPath, str, str, float, int]]:
    """Yields the tuples of `_moments`, with each time converted to rounds, including the fraction of a round."""
    found = list(_moments(items))
    time = _time(time, [moment for *_, moment, _ in found])
    yield from ((path, key, name, time.exact(moment), given) for path, key, name, moment, given in found)


def _timestamp_ms(moment: Any) -> float | None:  # noqa: ANN401 - any value of the file
    try:
        return ms_from_start(moment, 0.0) if is_timestamp(moment) else None
    except (ValueError, TypeError):
        return None


def _rounded(item: Mapping[str, Any], time: TimeSpec) -> dict[str, Any]:
    exact: dict[str, float] = {}
    for key, name in _KEYS:
        if (moment := item.get(key)) is not None:
            try:
                exact[name] = time.exact(moment)
            except (ValueError, TypeError):
                exact[name] = 0.0
    rounded = {name: int(min(max(of + 0.5, 0.0), MAX_ROUND)) for name, of in exact.items() if name not in item}
    begin = rounded.get("round", item.get("round"))
    if "until" in rounded and isinstance(begin, int) and exact["until"] > exact.get("round", math.inf):
        rounded["until"] = max(rounded["until"], begin + 1)
    return {**item, **rounded}


def time_problems(time: TimeSpec, items: Iterator[tuple[KeyPath, Strict]]) -> Iterator[Problem]:
    """Yields a problem for each item whose round and time differ by more than a round, or whose time precedes round 0.

    `items` contains the path and the model of each item of a list. Items that are not `Timed` are skipped.
    """
    for path, key, name, exact, given in _exact(time, items):
        if exact < -0.5:
            message = f"{key} is {-exact * time.round_ms * time.speed:g} ms before the start;"
            yield Problem((*path, key), f"{message} set time.origin to it or earlier, or remove the part")
        elif abs(exact - given) > 1.0 + 1e-9:
            message = f"{key} is round {exact:g}, and {name} is {given}; allowed: one of the two, so leave one out"
            yield Problem((*path, name), message)


def listed_timestamps(items: Iterator[tuple[KeyPath, Strict]]) -> Iterator[KeyPath]:
    """Yields the path of each timestamp in the keys ``at_ms`` and ``until_ms`` of `items`."""
    yield from ((*path, key) for path, key, _, moment, _ in _moments(items) if is_timestamp(moment))


def rounding_error_ms(time: TimeSpec, items: Iterator[tuple[KeyPath, Strict]]) -> tuple[float, KeyPath]:
    """Returns the largest difference in ms between an item's time and its round, and the path of this item."""
    errors = ((abs(exact - given) * time.round_ms, path) for path, _, _, exact, given in _exact(time, items))
    return max(errors, key=lambda one: one[0], default=(0.0, ()))
