"""The manifest of a store: its scenario and options, in the file ``experiment.json`` beside the tables.

The rows of a store depend only on the content of its manifest: the scenario, the hashes of its input files, and package
versions. So a store can be resumed from its folder alone. The file is written atomically before the engine creates the
first table: if the program is killed, the manifest is either complete or missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter

from pipelines.contract.forms import AskedForm
from pipelines.engines.names import Engine
from pipelines.errors import ScenarioError, StoreError
from pipelines.experiment.prepared import Prepared, expand_runs
from pipelines.protocols import OWN_PACKAGE, PACKAGES
from pipelines.scenario.load import read_scenario, scenario_source
from pipelines.store.folder import MANIFEST, check_format, check_store
from pipelines.store.roots import Root, write_whole
from pipelines.tables import STORE_FORMAT

_PACKAGES = (OWN_PACKAGE, "pyspark", "numpy", "topohub")
_version = cache(version)  # reading the metadata of the packages takes 20 CPU ms, and a run reads it twice


def versions(protocols: Iterable[str]) -> dict[str, str]:
    """Returns the versions of the packages on which a store's rows depend, including the packages of ``protocols``."""
    return {name: _version(name) for name in sorted({*_PACKAGES, *(PACKAGES[protocol] for protocol in protocols)})}


@dataclass(frozen=True)
class Manifest:
    """The scenario and the options of a store.

    Attributes:
        scenario: Path of the scenario file.
        text: Content of the scenario file.
        overrides: Strings ``path=value`` that replaced values of the scenario.
        commit_every: Requested number of rounds between commits; None selects the default.
        rounds_per_job: Requested number of rounds of a job; None selects the default.
        horizon: The last possible round of a run.
        versions: Package versions, see `versions`.
        files: Input files: maps the path in the scenario to the absolute path and the SHA-256 of the file.
        schema: The schema ``catalog.schema`` in which the store is registered; None if the user named no schema.
        store_format: Format version, see `tables.STORE_FORMAT`.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    scenario: str
    text: str
    overrides: tuple[str, ...]
    engine: Engine
    commit_every: int | None
    rounds_per_job: int | None
    form: AskedForm
    batch_runs: int
    horizon: int
    versions: Mapping[str, str]
    files: Mapping[str, tuple[str, str]]
    schema: str | None = None
    store_format: int = STORE_FORMAT

    def write(self, root: Root) -> None:
        """Writes the manifest into the folder of a store."""
        write_whole(root / MANIFEST, json.dumps(asdict(self), indent=1, ensure_ascii=False))

    @classmethod
    def read(cls, root: Root) -> Manifest:
        """Reads the manifest of a store.

        Raises:
            StoreError: The store does not exist, has another format, or its manifest is missing or damaged.
        """
        check_format(root)
        if not (root / MANIFEST).is_file():
            check_store(root)
        try:
            return TypeAdapter(cls).validate_json((root / MANIFEST).read_text("utf-8"))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise StoreError(
                f"the store {str(root)!r} cannot be resumed: its {MANIFEST}, which has the settings, cannot be read "
                f"({reason}); run the scenario again, with a new --store"
            ) from error

    def prepared(self) -> Prepared:
        """Reads and expands the stored scenario."""
        return expand_runs(read_scenario(Path(self.scenario), self.text, self.overrides))

    def found(self) -> dict[str, Path]:
        """Returns the absolute path of each input file, keyed by its path in the scenario, for `files.remembered`."""
        return {name: Path(file) for name, (file, _) in self.files.items()}

    def check_same(self, root: Root, engine: Engine, purpose: str = "resumed") -> None:
        """Checks that the packages, the scenario and the input files have not changed since the run began.

        ``engine`` is the engine of this session; the message names ``root`` and ``purpose``, e.g. "resumed".

        Raises:
            StoreError: Something changed; the error lists all changes.
        """
        changed = [*self._other_versions(), *self._other_files()]
        if engine != self.engine:
            changed.append(f"it was started on {self.engine}, this session is of {engine}: take one of {self.engine}")
        if changed:
            raise StoreError(
                f"the store {str(root)!r} cannot be {purpose}: {'; '.join(changed)}; or run the scenario "
                "again, with a new --store"
            )

    def _other_versions(self) -> Iterator[str]:
        now = versions(self.prepared().protocols)
        for name in sorted({*now, *self.versions}):
            then, here = self.versions.get(name, "none"), now.get(name, "none")
            if then != here:
                yield f"it was started with {name} {then}, this is {here}: install {name}=={then}"

    def _other_files(self) -> Iterator[str]:
        scenario = Path(self.scenario)
        if scenario.is_file() and _text_of(scenario) != self.text:
            yield f"the scenario {self.scenario} has changed since the start of the run: restore the old text"
        for file, digest in self.files.values():
            if not Path(file).is_file():
                yield f"the input file {file} is missing: restore it"
            elif file_digest(Path(file)) != digest:
                yield f"the input file {file} has changed since the start of the run: restore the old file"


def manifest_files(found: Mapping[str, Path]) -> dict[str, tuple[str, str]]:
    """Returns the value of `Manifest.files` for the files that `find_file` found."""
    return {name: (str(path.absolute()), file_digest(path)) for name, path in found.items()}


def file_digest(path: Path) -> str:
    """Returns the SHA-256 of a file as a hexadecimal string."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text_of(scenario: Path) -> str | None:
    try:
        return scenario_source(scenario)
    except ScenarioError:
        return None
