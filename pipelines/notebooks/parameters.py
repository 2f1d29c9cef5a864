"""Reads the parameters of a notebook.

On Databricks they are widgets. If the notebook runs as a script, they are command-line options. Anywhere else, for
example in Jupyter, they have their default values.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
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
"""The prefix of the docstring line that names a required extra."""


@dataclass(frozen=True)
class NotebookParameters:
    """The parameters of a notebook, and its engine.

    Attributes:
        values: The parameters by name.
        overrides: Changed values of the scenario, each ``path=value``.
        spark: The Spark session of the notebook; None if it has no session.
        engine: The engine to start if ``spark`` is ``None``; ``None`` stands for the value of ROUNDTABLE_ENGINE, or
            else for the engine in the scenario.
    """

    values: Mapping[str, str]
    overrides: Sequence[str] = ()
    spark: SparkSession | None = None
    engine: AskedEngine | None = None

    def run(self, scenario: str, overrides: Sequence[str] = (), **options: Any) -> Result:  # noqa: ANN401
        """Runs a scenario; ``options`` are passed to `pipelines.run`.

        ``overrides`` are ``path=value`` strings; overrides on the command line take precedence.
        """
        import pipelines as rt

        changed = [*overrides, *self.overrides]
        return rt.run(scenario, spark=self.spark, engine=self.engine, overrides=changed, **options)

    def run_or_open(
        self, scenario: str, overrides: Sequence[str] = (), store: str | None = None, **options: Any  # noqa: ANN401
    ) -> Result:  # fmt: skip
        """Runs a scenario into a store, or opens the store if it exists; ``overrides`` and ``options`` as in `run`.

        ``store`` None stands for the value of parameter ``store``.
        """
        import pipelines as rt

        place = store or self["store"]
        if Path(place, MANIFEST).is_file():
            print(f"opened: the store {place} of an earlier run; remove it, or name another store, to run again")
            return rt.open_store(place, self.spark, self.engine)
        return self.run(scenario, overrides, store=place, **options)

    def __getitem__(self, name: str) -> str:
        """Returns the value of a parameter."""
        return self.values[name]


def show(picture: Picture) -> None:
    """Displays a picture in an IPython kernel, for example on Databricks; does nothing in a script."""
    if "IPython" in sys.modules:
        from IPython.display import display

        display(picture)


def read_parameters(
    notebook: Mapping[str, Any], defaults: Mapping[str, str], arguments: Sequence[str] | None = None
) -> NotebookParameters:
    """Reads the parameters and the Spark session of a notebook.

    Args:
        notebook: The variables of the notebook, ``globals()``.
        defaults: Maps the name of each parameter to its default value.
        arguments: The command-line arguments; None for the arguments in ``sys.argv``.
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
    start = next(index for index, line in enumerate(lines) if line.startswith(_HEADING))
    below = takewhile(lambda line: line.startswith(_MARKDOWN), lines[start + 1 :])
    text = [line.removeprefix(_MARKDOWN) for line in below]
    text += [line.replace("``", "") for line in lines if line.startswith(_EXTRA)]
    description = f"{lines[start].removeprefix(_HEADING)}: {' '.join(text)}"
    parser = argparse.ArgumentParser(f"python -m pipelines.notebooks.{file.stem}", description=description)
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, metavar="X", help=f"default: {default!r}")
    engine_help = "default: the value of ROUNDTABLE_ENGINE, or else the engine in the scenario"
    parser.add_argument("--engine", choices=ASKED_ENGINES, type=current_name, help=engine_help)
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", metavar="PATH=VALUE",
        help="changes a value of the scenario, as `roundtable run --set` does; may be repeated",
    )  # fmt: skip
    options = vars(parser.parse_args(arguments))
    engine, overrides = options.pop("engine"), options.pop("overrides")
    return NotebookParameters(options, overrides, engine=engine)
