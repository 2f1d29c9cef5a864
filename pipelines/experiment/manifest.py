"""The inputs of a store, in the file ``experiment.json`` beside its tables.

It has the scenario, the hashes of its files and the versions that determine the rows, so that a store can be resumed
from its folder alone. It is a file, not a table: it is written in one step before the engine creates the first table,
so a program that is killed at any time leaves it complete or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from pipelines.contract.forms import AskedForm
from pipelines.engines.names import Engine
from pipelines.errors import ScenarioError, StoreError
from pipelines.experiment.prepared import Prepared, expand_runs
from pipelines.protocols import OWN_PACKAGE, PACKAGES
from pipelines.scenario.load import read_scenario, scenario_text
from pipelines.store.folder import MANIFEST, check_format, check_store
from pipelines.store.roots import Root, write_whole
from pipelines.tables import STORE_FORMAT

_PACKAGES = (OWN_PACKAGE, "pyspark", "numpy", "topohub")


def versions(protocols: Iterable[str]) -> dict[str, str]:
    """Returns the versions of the program and of the packages that its rows depend on.

    Args:
        protocols: The protocols; the packages that bring them are among these.
    """
    return {name: version(name) for name in sorted({*_PACKAGES, *(PACKAGES[protocol] for protocol in protocols)})}


@dataclass(frozen=True)
class Manifest:
    """The scenario and the options of a store.

    Attributes:
        scenario: The scenario file.
        text: Its text.
        overrides: Values set from outside, each ``path=value``.
        engine: The engine.
        commit_every: Rounds between commits; None: as it suits.
        rounds_per_job: Rounds of a job; None: as it suits.
        form: The form that was asked for.
        batch_runs: How many runs go through the rounds together.
        horizon: The last round that may happen.
        versions: As `versions` returns them.
        files: The input files that the scenario names: the path it gives, then the file and its hash.
        schema: The schema that the store was named by, ``catalog.schema``; None: by its place.
        store_format: See `tables.STORE_FORMAT`.
    """

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
        """Writes it into the folder of a store."""
        write_whole(root / MANIFEST, json.dumps(asdict(self), indent=1, ensure_ascii=False))

    @classmethod
    def read(cls, root: Root) -> Manifest:
        """Reads it.

        Raises:
            StoreError: There is no store, or no manifest in it that can be read, or one of another format.
        """
        check_format(root)
        if not (root / MANIFEST).is_file():
            check_store(root)
        try:
            given = json.loads((root / MANIFEST).read_text("utf-8"))
            given["overrides"] = tuple(given["overrides"])
            given["files"] = {name: tuple(file) for name, file in given["files"].items()}
            return cls(**given)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise StoreError(
                f"the store {str(root)!r} cannot be resumed: its {MANIFEST}, which says how, cannot be read "
                f"({reason}); run the scenario again, with a new --store"
            ) from error

    def prepared(self) -> Prepared:
        """Returns the scenario that the first run read."""
        return expand_runs(read_scenario(Path(self.scenario), self.text, self.overrides))

    def found(self) -> dict[str, Path]:
        """Returns the input files, see `files.remembered`."""
        return {name: Path(file) for name, (file, _) in self.files.items()}

    def check_same(self, root: Root, engine: Engine, purpose: str = "resumed") -> None:
        """Checks that nothing changed that the rows depend on.

        Args:
            root: Folder of the store, for the message.
            engine: The engine that is to resume it.
            purpose: What is to be done with it, for the message.

        Raises:
            StoreError: With everything that changed.
        """
        changed = [*self._other_versions(), *self._other_files()]
        if engine != self.engine:
            changed.append(f"it was begun on {self.engine}, this session is of {engine}: take one of {self.engine}")
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
                yield f"it was begun with {name} {then}, this is {here}: install {name}=={then}"

    def _other_files(self) -> Iterator[str]:
        scenario = Path(self.scenario)
        if scenario.is_file() and _text_of(scenario) != self.text:
            yield f"the scenario {self.scenario} has changed since: put the old text back"
        for file, digest in self.files.values():
            if not Path(file).is_file():
                yield f"the input file {file} is gone: put it back"
            elif file_digest(Path(file)) != digest:
                yield f"the input file {file} has changed since: put the old one back"


def manifest_files(found: Mapping[str, Path]) -> dict[str, tuple[str, str]]:
    """Returns `Manifest.files` of the files that were found."""
    return {name: (str(path.absolute()), file_digest(path)) for name, path in found.items()}


def file_digest(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text_of(scenario: Path) -> str | None:
    try:
        return scenario_text(scenario)
    except ScenarioError:
        return None
