"""Helpers of the notebooks of studies: answers of a store as pandas tables, and pictures as files."""

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
    """Answers the queries of a study; each row has the parameters of its run.

    Args:
        result: An open store.
        parameters: A query with a row a run: ``run_id``, and the values that tell the runs apart.
        queries: A query by name; every answer has ``run_id``.

    Returns:
        The answers by name, with the columns of ``parameters``.
    """
    run_rows = result.to_pandas(parameters)
    return {name: result.to_pandas(text).merge(run_rows, on="run_id") for name, text in queries.items()}


def write(charts: Mapping[str, Any], folder: Path) -> list[Path]:
    """Writes pictures as SVG files.

    Args:
        charts: Altair charts by name; writing them needs the extra ``report``.
        folder: The folder of the files; created if it does not exist.

    Returns:
        The files, ``name.svg`` each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.svg" for name in charts]
    for path, chart in zip(written, charts.values(), strict=True):
        chart.save(str(path))
    return written
