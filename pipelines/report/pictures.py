"""Pictures: Vega-Lite specifications of the page's assets, filled with rows, drawn as SVG without a browser."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

from pipelines.errors import QueryError

PALETTE = ("#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C7A00", "#0072B2", "#888888")
"""Okabe and Ito's colours, which colour-blind readers tell apart; the yellow is darker, for white paper.

The blue of nodes comes late: messages are drawn over them."""
_INK = "currentColor"
_BLACK, _WHITE = "#1b1b1b", "white"
CONFIG: Mapping[str, Any] = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "range": {"category": PALETTE},
    "axis": {"labelColor": _INK, "titleColor": _INK, "tickColor": "#888888", "domainColor": "#888888",
             "gridColor": "#88888844"},
    "legend": {"labelColor": _INK, "titleColor": _INK, "orient": "bottom", "columns": 6},
    "title": {"color": _INK, "anchor": "start", "fontSize": 13},
    "view": {"stroke": None},
}  # fmt: skip
"""How all pictures look; on a page their text has the colour of the page around them."""


@dataclass(frozen=True)
class Picture:
    """A picture that shows itself in a notebook, without a network.

    Attributes:
        svg: The picture.
    """

    svg: str

    def save(self, path: str | Path) -> Path:
        """Writes it as an SVG file.

        Raises:
            QueryError: The file cannot be written.
        """
        file = Path(path)
        try:
            file.write_text(self.svg, "utf-8")
        except OSError as error:
            raise QueryError(f"the file {str(file)!r} cannot be written: {error.strerror}; name another one") from error
        return file

    def _repr_html_(self) -> str:
        """Shows it, in a notebook."""
        return f'<div style="overflow-x:auto">{self.svg}</div>'


def specification(name: str) -> Any:  # noqa: ANN401 - Vega-Lite's JSON
    """Returns a specification, or several by name, as the file says it."""
    return json.loads((files("pipelines.report") / "assets" / f"{name}.json").read_text("utf-8"))


def with_unit(spec: Mapping[str, Any], round_ms: float | None) -> Any:  # noqa: ANN401 - Vega-Lite's JSON
    """Returns a specification whose titles say how many ms a round has, where they are about rounds."""
    if round_ms is None:
        return spec
    return json.loads(json.dumps(spec).replace("(rounds)", f"(rounds of {round_ms:g} ms)"))


def picture(spec: Mapping[str, Any], datasets: Mapping[str, Sequence[Mapping[str, Any]]]) -> Picture:
    """Draws a specification with rows, on white: a file does not know what it will lie on.

    Raises:
        QueryError: The extra ``report`` is not installed.
    """
    layers = [one for one in spec.get("layer", ()) if "data" not in one or datasets[one["data"]["name"]]]
    filled = {**spec, **({"layer": layers} if layers else {}), "config": {**CONFIG, "background": _WHITE}}
    drawn = json.loads(json.dumps(filled).replace(_INK, _BLACK))
    return Picture(vega().vegalite_to_svg(drawn | {"datasets": {name: list(rows) for name, rows in datasets.items()}}))


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
