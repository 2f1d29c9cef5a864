"""Pictures: Vega-Lite specifications of the page's assets, filled with rows, drawn as SVG without a browser."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

from pipelines.errors import QueryError

PALETTE = ("#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C7A00", "#0072B2", "#888888")
"""Okabe and Ito's colours, which colour-blind readers tell apart; the yellow is darker, for white paper.

The blue of nodes comes late: messages are drawn over them."""
_INK = "currentColor"
_BLACK, _WHITE = "#1b1b1b", "white"
_PNG_SCALE = 2
WIDTH = 620
"""Pixels of a picture that on a page is as wide as its place."""
CONFIG: Mapping[str, Any] = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "range": {"category": PALETTE},
    "axis": {"labelColor": _INK, "titleColor": _INK, "tickColor": "#888888", "domainColor": "#888888",
             "gridColor": "#88888844"},
    "legend": {"labelColor": _INK, "titleColor": _INK, "orient": "bottom", "columns": 6, "labelLimit": 0,
               "titleLimit": 0},
    "title": {"color": _INK, "anchor": "start", "fontSize": 13},
    "view": {"stroke": None},
}  # fmt: skip
"""How all pictures look; on a page their text has the colour of the page around them."""


@dataclass(frozen=True)
class Picture:
    """A picture that shows itself in a notebook, without a network.

    Attributes:
        svg: The picture.
        rows: Its data, a row a mark; marks of several datasets have a column ``part``.
    """

    svg: str
    rows: Sequence[Mapping[str, Any]] = ()

    def save(self, path: str | Path) -> Path:
        """Writes the picture, or its data, as the suffix of the file says.

        Args:
            path: A file whose name ends in ``.svg``, ``.png``, ``.pdf`` or ``.csv``.

        Raises:
            QueryError: Another suffix, or the file cannot be written.
        """
        file = Path(path)
        check_name(file)
        try:
            file.write_bytes(FORMATS[file.suffix](self))
        except OSError as error:
            raise QueryError(f"the file {str(file)!r} cannot be written: {error.strerror}; name another one") from error
        return file

    def _repr_html_(self) -> str:
        """Shows it, in a notebook."""
        return f'<div style="overflow-x:auto">{self.svg}</div>'


def _png(shown: Picture) -> bytes:
    drawn: bytes = vega().svg_to_png(shown.svg, scale=_PNG_SCALE)
    return drawn


def _pdf(shown: Picture) -> bytes:
    drawn: bytes = vega().svg_to_pdf(shown.svg)
    return drawn


def _csv(shown: Picture) -> bytes:
    text = StringIO(newline="")
    names = dict.fromkeys(name for row in shown.rows for name in row)
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(shown.rows)
    return text.getvalue().encode()


FORMATS: Mapping[str, Callable[[Picture], bytes]] = {
    ".svg": lambda shown: shown.svg.encode(), ".png": _png, ".pdf": _pdf, ".csv": _csv,
}  # fmt: skip
"""The function that encodes a picture, by the suffix of the file."""


def check_name(file: Path) -> None:
    """Checks that a picture can be written as a file of this name.

    Raises:
        QueryError: Its suffix is not in `FORMATS`.
    """
    if file.suffix not in FORMATS:
        allowed = ", ".join(FORMATS)
        raise QueryError(f"a picture cannot be written as {file.name!r}; allowed are names that end in {allowed}")


def specification(name: str) -> Any:  # noqa: ANN401 - Vega-Lite's JSON
    """Returns the content of ``assets/NAME.json``: a Vega-Lite specification, or several by name."""
    return json.loads((files("pipelines.report") / "assets" / f"{name}.json").read_text("utf-8"))


def with_unit(spec: Mapping[str, Any], round_ms: float | None) -> Any:  # noqa: ANN401 - Vega-Lite's JSON
    """Returns a specification in which titles with "(rounds)" also name the length of a round in ms."""
    if round_ms is None:
        return spec
    return json.loads(json.dumps(spec).replace("(rounds)", f"(rounds of {round_ms:g} ms)"))


def picture(spec: Mapping[str, Any], datasets: Mapping[str, Sequence[Mapping[str, Any]]]) -> Picture:
    """Draws a specification with rows, on a white background: a file may be shown on any page.

    Raises:
        QueryError: The extra ``report`` is not installed.
    """
    layers = [one for one in spec.get("layer", ()) if "data" not in one or datasets[one["data"]["name"]]]
    width = {"width": WIDTH} if spec.get("width") == "container" else {}
    filled = {**spec, **width, **({"layer": layers} if layers else {}), "config": {**CONFIG, "background": _WHITE}}
    drawn = json.loads(json.dumps(filled).replace(_INK, _BLACK))
    svg = vega().vegalite_to_svg(drawn | {"datasets": {name: list(rows) for name, rows in datasets.items()}})
    [*names] = datasets
    marks = [row if len(names) == 1 else {"part": name, **row} for name in names for row in datasets[name]]
    return Picture(svg, marks)


def vega() -> ModuleType:
    """Returns the library that draws, and that carries the page's libraries.

    Raises:
        QueryError: It is not installed.
    """
    try:
        import vl_convert
    except ModuleNotFoundError as error:
        raise QueryError("pictures need another package: pip install 'roundtable-pubsub[report]'") from error
    module: ModuleType = vl_convert
    return module
