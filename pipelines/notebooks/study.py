"""Functions of the study notebooks: query results as pandas DataFrames, and charts as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.result import Result

try:
    import altair as alt
except ModuleNotFoundError as error:
    raise ImportError("the pictures need Altair: pip install 'roundtable-pubsub[report]'") from error

__all__ = ["alt", "answers", "write"]


def answers(result: Result, parameters: str, queries: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """Runs the queries of a study, and adds the parameters of its run to each row.

    Args:
        result: An open store.
        parameters: A query with one row for each run: ``run_id``, and the parameters that differ between runs.
        queries: Queries by name; each result has column ``run_id``.

    Returns:
        The results by name; each has the columns of the query, and then those of ``parameters``.
    """
    run_rows = result.to_pandas(parameters)
    return {name: result.to_pandas(text).merge(run_rows, on="run_id") for name, text in queries.items()}


def write(charts: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Writes Altair charts as SVG files into ``folder``, creates it if necessary; prints and returns the paths."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = {Path(folder, f"{name}.svg"): chart for name, chart in charts.items()}
    for path, chart in written.items():
        chart.save(str(path))
        print(path)
    return list(written)
