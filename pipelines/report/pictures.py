"""Renders Vega-Lite specifications and their rows as SVG; no browser is needed."""

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

from pipelines.errors import QueryError, checked
from pipelines.store.roots import write_whole, writing

PALETTE = ("#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C7A00", "#0072B2", "#888888")
"""The colours of Okabe and Ito, which colour-blind readers can distinguish. Yellow is darkened for white paper.

Blue is among the last colours because messages are drawn over blue nodes.
"""
_INK = "currentColor"
_BLACK, _WHITE = "#1b1b1b", "white"
_PNG_SCALE = 2
WIDTH = 620
"""The width in pixels of pictures that fill their container on a page."""
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
"""The style of all pictures. On a page, text has the colour of the surrounding text."""


@dataclass(frozen=True)
class Picture:
    """A picture as SVG, which notebooks display without a network connection.

    ``rows`` has the data, one row for each mark; if there are several datasets, column ``part`` names the dataset.
    """

    svg: str
    rows: Sequence[Mapping[str, Any]] = ()

    @checked
    def save(self, path: str | Path) -> Path:
        """Writes the picture (``.svg``, ``.png``, ``.pdf``) or its data (``.csv``) to a file.

        Raises:
            QueryError: The suffix is unknown, or the file cannot be written.
        """
        file = Path(path)
        check_name(file)
        with writing(file, "name another one"):
            write_whole(file, FORMATS[file.suffix](self))
        return file

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg}</div>'


def _csv(shown: Picture) -> bytes:
    text = StringIO(newline="")
    names = dict.fromkeys(name for row in shown.rows for name in row)
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(shown.rows)
    return text.getvalue().encode()


FORMATS: Mapping[str, Callable[[Picture], bytes]] = {
    ".svg": lambda shown: shown.svg.encode(),
    ".png": lambda shown: bytes(vega().svg_to_png(shown.svg, scale=_PNG_SCALE)),
    ".pdf": lambda shown: bytes(vega().svg_to_pdf(shown.svg)),
    ".csv": _csv,
}
"""For each file suffix, the function that encodes a picture."""


def check_name(file: Path) -> None:
    """Raises `QueryError` if the suffix of a file name is not in `FORMATS`."""
    if file.suffix not in FORMATS:
        allowed = ", ".join(FORMATS)
        raise QueryError(f"a picture cannot be written as {file.name!r}; allowed are names that end in {allowed}")


def asset(name: str) -> str:
    """Returns the content of a file in ``assets/``."""
    return (files("pipelines.report") / "assets" / name).read_text("utf-8")


def specification(name: str) -> Any:  # noqa: ANN401 - Vega-Lite's JSON
    """Returns the content of ``assets/NAME.json``: one Vega-Lite specification, or several by name."""
    return json.loads(asset(f"{name}.json"))


def with_unit(spec: Mapping[str, Any], round_ms: float) -> Any:  # noqa: ANN401 - Vega-Lite's JSON
    """Replaces "(rounds)" by "(rounds of N ms)" in ``spec``."""
    return json.loads(json.dumps(spec).replace("(rounds)", f"(rounds of {round_ms:g} ms)"))


def picture(spec: Mapping[str, Any], datasets: Mapping[str, Sequence[Mapping[str, Any]]]) -> Picture:
    """Renders a specification on a white background; ``datasets`` contains the rows of each of its datasets.

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
    """Returns module ``vl_convert``, which renders pictures; raises `QueryError` if it is not installed."""
    try:
        import vl_convert
    except ModuleNotFoundError as error:
        raise QueryError("pictures need another package: pip install 'roundtable-pubsub[report]'") from error
    module: ModuleType = vl_convert
    return module
