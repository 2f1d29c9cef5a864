"""The parameters of a notebook: from widgets on Databricks, from options as a script, else their defaults."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipelines.engines.names import ASKED_ENGINES, AskedEngine, current_name
from pipelines.report.pictures import Picture
from pipelines.result import Result
from pipelines.store.folder import MANIFEST

_HEADING = "# MAGIC # "
_MARKDOWN = "# MAGIC "
_EXTRA = "Needs the extra "
"""The first words of the docstring line that names further packages to install."""


@dataclass(frozen=True)
class NotebookParameters:
    """The parameters of a notebook, and its engine.

    Attributes:
        values: Its parameters.
        overrides: Values of the scenario that are changed, each ``path=value``.
        spark: The session of a notebook that has one.
        engine: The engine to start without a session; None: that of ROUNDTABLE_ENGINE, or of the scenario.
    """

    values: Mapping[str, str]
    overrides: Sequence[str] = ()
    spark: SparkSession | None = None
    engine: AskedEngine | None = None

    def run_or_open(self, scenario: str, overrides: Sequence[str] = (), **options: Any) -> Result:  # noqa: ANN401
        """Runs a scenario into the store of the parameters, or opens the store that an earlier run of the cell left.

        Args:
            scenario: Its name or its file.
            overrides: As `pipelines.run` takes them; those of the command line come behind.
            options: Other arguments of `pipelines.run`.
        """
        import pipelines as rt

        store = self["store"]
        if Path(store, MANIFEST).is_file():
            print(f"opened: the store {store} of an earlier run; remove it, or name another store, to run again")
            return rt.open_store(store, self.spark, self.engine)
        changed = [*overrides, *self.overrides]
        return rt.run(scenario, spark=self.spark, engine=self.engine, store=store, overrides=changed, **options)

    def __getitem__(self, name: str) -> str:
        """Returns a parameter."""
        return self.values[name]


def show(picture: Picture) -> None:
    """Shows a picture where a kernel of IPython runs the notebook, as on Databricks; a script shows none."""
    if "IPython" in sys.modules:
        from IPython.display import display

        display(picture)


def given(
    notebook: Mapping[str, Any], defaults: Mapping[str, str], arguments: Sequence[str] | None = None
) -> NotebookParameters:
    """Returns the values of a notebook's parameters and its Spark session, from widgets or the command line.

    Args:
        notebook: The variables of the notebook, ``globals()``.
        defaults: The default of each parameter.
        arguments: Arguments of the command line; None for ``sys.argv``.
    """
    spark = notebook.get("spark")
    if "dbutils" in notebook:
        widgets = notebook["dbutils"].widgets
        for name, default in defaults.items():
            widgets.text(name, default)
        return NotebookParameters({name: widgets.get(name) for name in defaults}, spark=spark)
    if spark is not None or "get_ipython" in notebook or notebook["__name__"] != "__main__":
        return NotebookParameters(dict(defaults), spark=spark)
    return _of_options(Path(notebook["__file__"]), defaults, sys.argv[1:] if arguments is None else arguments)


def _of_options(file: Path, defaults: Mapping[str, str], arguments: Sequence[str]) -> NotebookParameters:
    lines = file.read_text("utf-8").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(_HEADING))
    told = [lines[start].removeprefix(_HEADING)]
    for line in lines[start + 1 :]:
        if not line.startswith(_MARKDOWN):
            break
        told.append(line.removeprefix(_MARKDOWN))
    told += [line.replace("``", "") for line in lines if line.startswith(_EXTRA)]
    parser = argparse.ArgumentParser(
        f"python -m pipelines.notebooks.{file.stem}", description=f"{told[0]}: {' '.join(told[1:])}"
    )
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, metavar="X", help=f"default: {default!r}")
    parser.add_argument(
        "--engine",
        choices=ASKED_ENGINES,
        type=current_name,
        help="default: that of ROUNDTABLE_ENGINE, or of the scenario",
    )
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", metavar="PATH=VALUE",
        help="changes a value of the scenario, as `roundtable run --set` does; may be repeated",
    )  # fmt: skip
    options = vars(parser.parse_args(arguments))
    engine, overrides = options.pop("engine"), options.pop("overrides")
    return NotebookParameters(options, overrides, engine=engine)
