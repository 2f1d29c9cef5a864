"""Reads columns of times: ISO 8601 timestamps, or numbers that count from the start of a run or from 1970."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.run_inputs import Floats, Ints
from pipelines.contract.settings import MAX_ROUND
from pipelines.inputs.text_rows import texts_of
from pipelines.scenario.times import EPOCH_MS, MS_OF, TimeSpec

_NAMES = {
    "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds", "min": "minutes", "h": "hours",
}  # fmt: skip
_MAX_SECONDS = 2**63 // 10**9
"""Timestamps in ns have 64 bits and end in the year 2262; later timestamps are rejected."""
_RANGE = (pd.Timestamp.min.tz_localize("UTC"), pd.Timestamp.max.tz_localize("UTC"))
"""The first and the last timestamp in ns. Pandas 3 also parses others, in another unit."""
_END_MS = 253_402_300_800_000.0
"""Milliseconds from 1970 to the end of the year 9999; later times have no ISO 8601 timestamp of four-digit years."""
_OFFSET = r"[Tt ].*(?:[Zz]|[+-]\d\d(?::?\d\d)?)$"
"""The time and the offset from UTC at the end of an ISO 8601 timestamp."""
_SINCE_1970 = ("s", "ms", "us", "ns")


@dataclass(frozen=True, eq=False)
class Moments:
    """The times in a column of a file.

    Attributes:
        ms: Milliseconds from the start of the run, or from `origin_ms` for timestamps; NaN for an empty cell.
        is_wrong: For each cell, whether the cell is neither empty nor a time; shape as `ms`.
        origin_ms: The first timestamp, in ms from 1970; None if the times count from the start of the run.
        form: A phrase that describes the format of the cells, for notes.
    """

    ms: Floats
    is_wrong: npt.NDArray[np.bool_]
    origin_ms: float | None
    form: str

    def from_start(self, time: TimeSpec) -> Floats:
        """Returns the times in ms from the start of the run, which is the first timestamp if `time` has no origin."""
        if self.origin_ms is None or time.origin_ms is None:
            return self.ms
        return self.ms + (self.origin_ms - time.origin_ms)

    def rounds(self, time: TimeSpec) -> Ints:
        """Returns the nearest round of each time; -1 for empty cells and times before round 0."""
        exact = np.nan_to_num(self.exact(time), nan=-1.0)
        return np.clip(np.floor(exact + 0.5), -1, MAX_ROUND).astype(np.int64)

    def exact(self, time: TimeSpec) -> Floats:
        """Returns the times in rounds, with fractions."""
        return self.from_start(time) / time.speed / time.round_ms

    def note(self, title: str, time: TimeSpec) -> str:
        """Returns a note on column `title`: the format of its times, the time of round 0, and the rounding error."""
        exact, rounds = self.exact(time), self.rounds(time)
        is_known = ~np.isnan(exact) & (rounds >= 0)
        error = np.abs(exact - rounds)[is_known].max(initial=0.0) * time.round_ms
        origin = ""
        if self.origin_ms is not None:
            origin = f"; round 0 is {iso(self.origin_ms if time.origin_ms is None else time.origin_ms)}"
            origin += "" if time.origin_ms is not None else ", the first timestamp (time.origin overrides this)"
        fast = "" if time.speed == 1 else f" at {time.speed:g} times the speed"
        away = f"; rounds are up to {error:.3g} ms away from them" if error else ""
        return f"column {title} holds {self.form}{origin}{away}{fast}"


def iso(ms: float) -> str:
    """Returns `ms`, milliseconds from 1970, as an ISO 8601 timestamp."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moments_of(column: pa.ChunkedArray, unit: str | None) -> Moments:
    """Returns the times in a column of strings, numbers or Arrow timestamps.

    Numbers count from 1970 if this interpretation dates all of them to July 1998 or later. Otherwise they count from
    the start of the run. `unit` is the unit of numbers. If it is `None`, times from the start are in ms, and the unit
    of times from 1970 is detected.
    """
    if pa.types.is_temporal(column.type):
        column = column.combine_chunks()
        seconds = pc.cast(pc.cast(column, pa.timestamp("s", tz="UTC"), safe=False), pa.int64())
        is_beyond = pc.fill_null(pc.greater_equal(pc.abs(seconds), _MAX_SECONDS), False)
        known = pc.if_else(is_beyond, pa.scalar(None, column.type), column)
        stamps = pd.Series(pc.cast(known, pa.timestamp("ns", tz="UTC"), safe=False).to_pandas())
        return _stamps(stamps, is_beyond.to_numpy(zero_copy_only=False), "timestamps")
    texts = texts_of(column)
    numbers = pd.to_numeric(pd.Series(texts.to_pandas()), errors="coerce").to_numpy(dtype=np.float64)
    is_empty = texts.is_null().to_numpy(zero_copy_only=False)
    if np.isnan(numbers[~is_empty]).all():
        found = _parsed(pd.Series(texts.to_pandas(), dtype=object))
        return _stamps(found, found.isna().to_numpy() & ~is_empty, "timestamps in ISO 8601")
    numbers = np.where(np.isfinite(numbers), numbers, np.nan)
    least = float(np.fmin.reduce(numbers))
    fitting = [name for name in _SINCE_1970 if EPOCH_MS <= least * MS_OF[name] < 100 * EPOCH_MS]
    chosen = unit or (fitting[0] if fitting else "ms")
    factor = MS_OF[chosen]
    if least * factor >= EPOCH_MS:
        numbers = np.where(numbers * factor < _END_MS, numbers, np.nan)
        least = float(np.fmin.reduce(numbers))
    is_wrong = np.isnan(numbers) & ~is_empty
    if np.isnan(least):
        return Moments(numbers, is_wrong, None, f"{_NAMES[chosen]} from 1970")
    if least * factor < EPOCH_MS:
        return Moments(numbers * factor, is_wrong, None, f"{_NAMES[chosen]} from the start")
    return Moments((numbers - least) * factor, is_wrong, least * factor, f"{_NAMES[chosen]} from 1970")


def _parsed(texts: pd.Series) -> pd.Series:
    """Returns ISO 8601 timestamps as times in UTC, NaT for other strings; timestamps without an offset are in UTC.

    Pandas would apply the offset of a row to the next rows without an offset. Rows without an offset are therefore
    parsed separately.
    """
    has_offset = texts.str.contains(_OFFSET, na=False)
    found = (
        pd.to_datetime(part, format="ISO8601", utc=True, errors="coerce")
        for part in (texts.where(has_offset), texts.mask(has_offset))
    )
    with_offset, without = (part.where(part.between(*_RANGE)).dt.as_unit("ns") for part in found)
    return with_offset.fillna(without)


def _stamps(found: pd.Series, is_wrong: npt.NDArray[np.bool_], form: str) -> Moments:
    first = found.min()
    ms = ((found - first) / pd.Timedelta(milliseconds=1)).to_numpy(dtype=np.float64)
    return Moments(ms, is_wrong, None if pd.isna(first) else first.value / 1e6, form)
