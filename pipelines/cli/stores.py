"""The command ``roundtable runs``: lists and removes the stores in a folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer
from deltalake import DeltaTable

from pipelines.cli.printing import shown
from pipelines.errors import StoreError, plural
from pipelines.experiment.manifest import Manifest
from pipelines.experiment.prepared import labelled
from pipelines.store.damage import named_damage
from pipelines.store.folder import LATEST, MANIFEST, check_format, is_being_written, locked, point
from pipelines.store.roots import Root, delta_rows, remove, sizes
from pipelines.tables import RUN

_DEPTH = 3
"""The number of levels of folders that `stores` searches."""
_VALUES = 6
_REMOVED_PREFIX = ".removed-"
"""The prefix that the folder of a store gets while the store is being removed."""
_SCHEMA = pa.schema({
    "store": pa.string(), "scenario": pa.string(), "state": pa.string(), "runs": pa.int64(), "MB": pa.float64(),
    "parameters": pa.string(), "settings": pa.string(),
})  # fmt: skip


def stores(folder: Root) -> Iterator[dict[str, Any]]:
    """Yields a row for each store in a folder, sorted by depth and then by path.

    The function searches the folder and the subfolders of two levels below it. It does not follow the link ``latest``.
    If several links lead to a folder, it visits the folder once.

    Yields:
        A dict with the columns of ``roundtable runs`` (`_SCHEMA`). ``state`` is the verdict of the runs; ``running``: a
        program writes the store; ``interrupted``: the runs can be resumed; or the reason why the store cannot be read.
        ``runs`` is null before the first commit, while a program writes the store, and if the store cannot be read.
        ``parameters`` are the protocols and the parameters that differ between the runs; ``settings`` are overrides.
    """
    level, visited = [folder], {_target(folder)}
    for _ in range(_DEPTH):
        for path in level:
            if _has_manifest(path) and not path.name.startswith(_REMOVED_PREFIX):
                size = round(sum(sizes(path).values()) / 1024**2, 1)
                yield dict(zip(_SCHEMA.names, (str(path), *_described(path, size)), strict=True))
        below = [path for outer in level if not _has_manifest(outer) for path in _entries(outer)]
        level = []
        folders = (path for path in below if path.name != LATEST and path.is_dir())
        for path in sorted(folders, key=lambda path: (isinstance(path, Path) and path.is_symlink(), str(path))):
            if (target := _target(path)) not in visited:
                visited.add(target)
                level.append(path)


def _target(path: Root) -> Root:
    return path.resolve() if isinstance(path, Path) else path


def _has_manifest(path: Root) -> bool:
    with suppress(PermissionError):
        return (path / MANIFEST).is_file()
    return False


def _entries(path: Root) -> Sequence[Root]:
    """Returns the content of a folder; an unreadable folder has none, so that it does not hide other stores."""
    with suppress(PermissionError):
        return [*path.iterdir()]
    return []


def _described(path: Root, size: float) -> tuple[str, str, int | None, float, str, str]:
    try:
        manifest = Manifest.read(path)
    except StoreError:
        try:
            check_format(path)
        except StoreError:
            return "?", "of another version", None, size, "", ""
        return "?", "damaged", None, size, "", ""
    try:
        n_runs, state, parameters = _runs(path)
    except Exception:  # Delta and Arrow raise errors of several types; a damaged store does not hide the others
        n_runs, state, parameters = None, "damaged", ""
    return Path(manifest.scenario).stem, state, n_runs, size, parameters, " ".join(manifest.overrides)


def _runs(path: Root) -> tuple[int | None, str, str]:
    if is_being_written(path):
        return None, "running", ""
    table = str(path / RUN.name)
    if not DeltaTable.is_deltatable(table):
        return None, "interrupted", ""
    found = delta_rows(DeltaTable(table), ["protocol", "parameters", "verdict"]).to_pydict()
    told = "; ".join([", ".join(sorted({*found["protocol"]})), *_varied(found["parameters"])])
    verdicts = found["verdict"]
    if None in verdicts or not verdicts:
        return len(verdicts), "interrupted", told
    return len(verdicts), next(verdict for verdict in ("invalid", "unknown", "valid") if verdict in verdicts), told


def _varied(parameters: Sequence[str]) -> Iterator[str]:
    """Yields a phrase ``path: value, value`` for each parameter that differs between runs."""
    given = labelled([json.loads(text) for text in dict.fromkeys(parameters)])
    for path in dict.fromkeys(path for values in given for path in values):
        values = list(dict.fromkeys(shown(one[path]) for one in given if path in one))
        if len(values) > 1 and path != "protocol.name":
            more = f", and {len(values) - _VALUES:,} more" if len(values) > _VALUES else ""
            yield f"{path}: {', '.join(values[:_VALUES])}{more}"


def remove_stores(folder: Root, *, is_sure: bool) -> None:
    """Removes a store, or all stores in a folder, after a confirmation on the terminal unless ``is_sure``."""
    if not isinstance(folder, Path):
        raise StoreError(f"{str(folder)!r} is not a local folder; remove it with the tools of its server")
    if not folder.is_dir():
        raise StoreError(f"folder {str(folder)!r} does not exist; `roundtable runs` lists the stores")
    found = list(stores(folder))
    if not found:
        raise StoreError(f"folder {str(folder)!r} contains no store; `roundtable runs` lists the stores")
    for one in found:
        if one["state"] == "running":
            raise StoreError(f"a program is writing the store {one['store']!r}; wait until it ends, or stop it")
    for one in found:
        print(f"{one['store']}: {one['scenario']}, {one['state']}, {one['MB']} MB")
    question = f"Remove {plural(len(found), 'store')}?"
    if not is_sure and not (sys.stdin.isatty() and typer.confirm(question)):
        raise StoreError(f"nothing is removed; to remove {plural(len(found), 'store')} without a question add --yes")
    for one in found:
        _remove(Path(one["store"]))
    print(f"removed: {plural(len(found), 'store')}, {sum(one['MB'] for one in found):.1f} MB")


def _remove(store: Path) -> None:
    # The store is renamed before its files are removed, so an interrupted removal leaves no partial store under the
    # original name. If the link ``latest`` points to the store, or to a store whose removal was interrupted, it is
    # pointed to the newest remaining store of the folder, or removed if no store remains.
    store = store.resolve()
    link = store.parent / LATEST
    is_latest = link.is_symlink() and (link.resolve() == store or not link.exists())
    gone = store.with_name(f"{_REMOVED_PREFIX}{store.name}")
    with locked(store):
        store.rename(gone)
    if is_latest:
        others = sorted(path.name for path in store.parent.iterdir() if (path / MANIFEST).is_file())
        left = [name for name in others if not name.startswith(_REMOVED_PREFIX)]
        if left:
            point(link, Path(left[-1]))
        else:
            link.unlink()
    with named_damage(gone):
        remove(gone)
    for path in store.parent.glob(f"{_REMOVED_PREFIX}*"):  # folders of interrupted removals
        with suppress(PermissionError):
            remove(path)


def store_rows(folder: Root) -> pa.Table:
    """Returns one row per store, with the columns of `_SCHEMA`."""
    if not folder.is_dir():
        raise StoreError(f"folder {str(folder)!r} does not exist; `roundtable run` makes runs/<scenario>/<time>")
    return pa.Table.from_pylist(list(stores(folder)), _SCHEMA)
