"""Stock quotes as PADRES writes them: ``[class,'STOCK'],[symbol,'AAPL'],[open,63.30],...,[date,'21-Dec-04']``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np
import pyarrow as pa

from pipelines.errors import DataFileError
from pipelines.inputs.workload.contents import inexact_whole

_PAIR = re.compile(r"\[([^,\[\]']+),(?:'([^']*)'|([^\[\]']*))\]")
_LINE = re.compile(rf"{_PAIR.pattern}(?:,{_PAIR.pattern})*")
_DATE = re.compile(r"(\d{1,2})-([A-Za-z]{3})-(\d{2}|\d{4})")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def padres_table(members: Mapping[str, str], reverse: bool) -> pa.Table:
    """Returns one row a quote and one column an attribute, null where a quote lacks it.

    Quoted values are text, the others numbers. The quotes of several members are merged by date, newest first,
    then by symbol: members without a date keep their order, one after the other.

    Args:
        members: The text of each file, newest quote first, by its name.
        reverse: Oldest first instead.

    Raises:
        DataFileError: A line is not of the format, or a date cannot be read; the message names member and line.
    """
    columns: dict[str, list[str | None]] = {}
    numeric: dict[str, bool] = {}
    places: list[str] = []
    for place, pairs in _lines(members):
        for name, quoted, bare in pairs:
            cells = columns.setdefault(name, [])
            if len(cells) > len(places):
                raise DataFileError(f"{place}: attribute {name!r} is given twice")
            cells.extend([None] * (len(places) - len(cells)))
            cells.append(quoted if quoted is not None else bare)
            numeric[name] = numeric.get(name, True) and quoted is None
        places.append(place)
    for cells in columns.values():
        cells.extend([None] * (len(places) - len(cells)))
    order = _order(columns, places, len(members), reverse)
    arrays = {name: _typed(cells, numeric[name], name, places) for name, cells in columns.items()}
    return pa.table(arrays).take(pa.array(order))


def _lines(members: Mapping[str, str]) -> Iterator[tuple[str, list[tuple[str, str | None, str | None]]]]:
    for member, text in members.items():
        for number, line in enumerate(text.splitlines(), start=1):
            stripped = line.strip()
            if not stripped:
                continue
            place = f"{member}, line {number}"
            if not _LINE.fullmatch(stripped):
                raise DataFileError(f"{place}: {stripped[:60]!r} is no list of [attribute,value] joined by commas")
            yield place, [(m[1], m[2], m[3]) for m in _PAIR.finditer(stripped)]


def _order(columns: Mapping[str, list[str | None]], places: list[str], members: int, reverse: bool) -> np.ndarray:
    if members > 1 and "date" in columns:
        days = np.array([_day(date, place) for date, place in zip(columns["date"], places, strict=True)])
        symbols = np.array([text or "" for text in columns.get("symbol", [""] * len(places))])
        file_order = np.arange(len(places))
        return np.lexsort((-file_order if reverse else file_order, symbols, days if reverse else -days))
    order = np.arange(len(places))
    return order[::-1] if reverse else order


def _day(date: str | None, place: str) -> int:
    day = _day_number(date or "")
    if day is None:
        raise DataFileError(f"{place}: {date!r} is no date such as '21-Dec-04'")
    return day


@lru_cache(maxsize=20_000)
def _day_number(date: str) -> int | None:
    """Returns a number that grows with the date; years of two digits are 1969 to 2068."""
    found = _DATE.fullmatch(date)
    if found is None or found[2].lower() not in _MONTHS:
        return None
    year = int(found[3]) + (0 if len(found[3]) == 4 else 1900 if int(found[3]) >= 69 else 2000)
    return (year * 12 + _MONTHS.index(found[2].lower())) * 31 + int(found[1]) - 1


def _typed(cells: list[str | None], is_numeric: bool, name: str, places: list[str]) -> pa.Array:
    column = pa.array(cells, pa.string())
    if not is_numeric:
        return column
    for kind in (pa.int64(), pa.float64()):
        try:
            numbers = column.cast(kind)
        except pa.ArrowInvalid:
            continue
        if kind == pa.float64() and (wrong := inexact_whole(column, numbers)) is not None:
            raise DataFileError(
                f"{places[cells.index(wrong)]}: {name!r} is the whole number {wrong}, which is not exact beside "
                "decimals, or beyond 64 bits; allowed: whole numbers of 64 bits"
            )
        return numbers
    place = next(p for p, cell in zip(places, cells, strict=True) if cell is not None and not _is_number(cell))
    raise DataFileError(f"{place}: the value of {name!r} is neither a number nor a text in single quotes")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
