"""``roundtable runs``: the stores of a folder, what they hold and how they ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable

from pipelines.cli.rows import print_table
from pipelines.errors import StoreError
from pipelines.experiment.manifest import Manifest
from pipelines.store.folder import LATEST, MANIFEST, is_being_written
from pipelines.store.roots import Root, sizes
from pipelines.tables import RUN

_DEPTH = 3


@dataclass(frozen=True)
class Stored:
    """A store, as its folder tells.

    Attributes:
        path: The folder.
        scenario: Name of the scenario file.
        state: ``valid``, ``invalid``, ``unknown``; ``running``: a program is writing it; ``interrupted``: it can be
            resumed; or why it cannot be read.
        n_runs: Its runs; None: nothing was committed.
        megabytes: Its size.
        settings: What was set from outside.
    """

    path: Root
    scenario: str
    state: str
    n_runs: int | None
    megabytes: float
    settings: str


def stores(folder: Root) -> Iterator[Stored]:
    """Yields the stores in a folder and the folders in it, by path; ``latest`` is a link and none of its own."""
    level = [folder]
    for _ in range(_DEPTH):
        for path in level:
            if (path / MANIFEST).is_file():
                yield _stored(path)
        below = [path for outer in level if not (outer / MANIFEST).is_file() for path in outer.iterdir()]
        level = sorted((path for path in below if path.name != LATEST and path.is_dir()), key=str)


def _stored(path: Root) -> Stored:
    size = sum(sizes(path).values()) / 1024**2
    try:
        manifest = Manifest.read(path)
    except StoreError:
        return Stored(path, "?", "of another version", None, size, "")
    n_runs, state = _state(path)
    settings = " ".join(manifest.overrides)
    return Stored(path, Path(manifest.scenario).stem, state, n_runs, size, settings)


def _state(path: Root) -> tuple[int | None, str]:
    if is_being_written(path):
        return None, "running"
    table = str(path / RUN.name)
    if not DeltaTable.is_deltatable(table):
        return None, "interrupted"
    found = DeltaTable(table).to_pyarrow_table(columns=["verdict"])["verdict"].to_pylist()
    if None in found or not found:
        return len(found), "interrupted"
    return len(found), next(verdict for verdict in ("invalid", "unknown", "valid") if verdict in found)


def print_stores(folder: Root, *, as_json: bool) -> None:
    """Prints a row a store, or an object a line.

    Raises:
        StoreError: There is no such folder.
    """
    if not folder.is_dir():
        raise StoreError(f"there is no folder {str(folder)!r}; `roundtable run` makes runs/<scenario>/<time>")
    rows = [
        (str(stored.path), stored.scenario, stored.state, stored.n_runs, round(stored.megabytes, 1), stored.settings)
        for stored in stores(folder)
    ]
    names = ("store", "scenario", "state", "runs", "MB", "settings")
    if as_json:
        for row in rows:
            print(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False))
    else:
        shown = [["-" if value is None else value for value in row] for row in rows]
        print_table(names, shown, (False, False, False, True, True, False))
