"""Writes a report as one HTML file with data, scripts and style, or shows it in a notebook; it sends no requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from pipelines.errors import QueryError
from pipelines.report.document import gather
from pipelines.report.pictures import asset, vega
from pipelines.report.replay import Span
from pipelines.sql.query import StoreReader
from pipelines.store.roots import Root, check_target, write_whole

NAME = "report.html"
STYLE = "page.css"
PROGRAMS = (
    "common.js", "verdict.js", "zoom.js", "replay.js", "space_time.js", "measures.js", "losses.js", "studies.js",
    "overlaid.js", "page.js",
)  # fmt: skip
"""The scripts of the page, in the order of loading."""
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def write_report(reader: StoreReader, root: Root, runs: Sequence[int], span: Span, out: Path | None) -> Root:
    """Writes the report of a store to ``out``, or to ``report.html`` in the store's folder; returns the path.

    ``runs`` and ``span`` are the parameters ``named`` and ``span`` of `document.gather`. The file is never incomplete.

    Raises:
        QueryError: The store has no such run or round, or the file cannot be written.
    """
    path = out if out is not None else root / NAME
    with _writing(path):
        check_target(path)
    data = gather(reader, root, runs, span)
    with _writing(path):
        write_whole(path, page(data, f"{data['scenario']} - Roundtable"))
    return path


@contextmanager
def _writing(path: Root) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        failed = f"the file {str(path)!r} cannot be written: {error.strerror}"
        raise QueryError(f"{failed}; name another with --out") from error


@dataclass(frozen=True)
class Replay:
    """A report page that initially shows the replay of a run; notebooks display it without a network connection."""

    html: str

    def _repr_html_(self) -> str:
        style = "width:100%;height:46rem;border:1px solid #8888"
        return f'<iframe title="Replay" style="{style}" srcdoc="{escape(self.html)}"></iframe>'


def replay_of(reader: StoreReader, root: Root, run_id: int, span: Span) -> Replay:
    """Returns the report page of one run, which initially shows the replay; raises the errors of `document.gather`."""
    data = gather(reader, root, (run_id,), span)
    return Replay(page(data | {"start": "replay"}, f"{data['scenario']}, run {run_id}"))


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
