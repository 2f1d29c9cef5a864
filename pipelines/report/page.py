"""Writes the content of a report into one HTML file with data, scripts and style; the page sends no requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from string import Template
from typing import Any

from pipelines.report.pictures import asset, vega

STYLE = "page.css"
PROGRAMS = (
    "common.js", "verdict.js", "zoom.js", "replay.js", "space_time.js", "measures.js", "losses.js", "studies.js",
    "overlaid.js", "page.js",
)  # fmt: skip
"""The scripts of the page, in the order of loading."""
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page(data: Mapping[str, Any], title: str) -> str:
    """Returns the HTML of a report from the result of `document.gather`."""
    scripts = (_libraries(), *(asset(name) for name in PROGRAMS))
    programs = "\n".join(f"<script>\n{text}</script>" for text in scripts)
    return Template(asset("page.html")).substitute(
        title=escape(title), style=asset(STYLE), data=embedded(data), programs=programs
    )


def embedded(data: Mapping[str, Any]) -> str:
    """Returns ``data`` as JSON without ``<``, ``>`` and ``&``, so that no string ends the script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    return text.translate({ord(sign): code for sign, code in _ESCAPED.items()})


def _libraries() -> str:
    """Returns the source of Vega, Vega-Lite and Vega-Embed, bundled as one script."""
    bundle: str = vega().javascript_bundle()
    return bundle.replace("</script", "<\\/script")
