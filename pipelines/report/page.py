"""One HTML file of what was gathered: data, programs and style are in it, and it asks nobody for anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from pipelines.report.pictures import vega

_ASSETS = files("pipelines.report") / "assets"
STYLE = "page.css"
PROGRAMS = (
    "common.js",
    "verdict.js",
    "zoom.js",
    "replay.js",
    "space_time.js",
    "measures.js",
    "losses.js",
    "studies.js",
    "overlaid.js",
    "page.js",
)
"""The page's own programs, in the order in which they are loaded."""
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def asset(name: str) -> str:
    """Returns the text of a file of the page."""
    return (_ASSETS / name).read_text("utf-8")


def page(data: Mapping[str, Any], title: str) -> str:
    """Returns the HTML of a report.

    Args:
        data: What `document.gather` returns.
        title: The title of the page.
    """
    own = (asset(name) for name in PROGRAMS)
    programs = "\n".join(f"<script>\n{text}</script>" for text in (_libraries(), *own))
    return Template(asset("page.html")).substitute(
        title=escape(title), style=asset(STYLE), data=embedded(data), programs=programs
    )


def embedded(data: Mapping[str, Any]) -> str:
    """Returns JSON that no text in it can end: it has no ``<``, ``>`` or ``&``."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    return text.translate({ord(sign): code for sign, code in _ESCAPED.items()})


def _libraries() -> str:
    """Returns Vega, Vega-Lite and Vega-Embed as one program, as the wheel of vl-convert carries them."""
    bundle: str = vega().javascript_bundle()
    return bundle.replace("</script", "<\\/script")
