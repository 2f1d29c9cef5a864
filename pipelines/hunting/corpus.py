"""The corpus of a hunt: a folder with a scenario for each finding, which the next hunt replays first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import ScenarioError, StoreError
from pipelines.experiment.listed import Parts, listed_scenario
from pipelines.experiment.prepared import prepare
from pipelines.scenario.yaml_text import scenario_text


@dataclass(frozen=True)
class Corpus:
    """Scenarios of earlier findings.

    Attributes:
        folder: Where they are; None: nothing is kept.
    """

    folder: Path | None

    @classmethod
    def at(cls, folder: str | Path | None) -> Corpus:
        """Returns the corpus in a folder.

        Raises:
            StoreError: The path names a file.
        """
        path = None if folder is None else Path(folder)
        if path is not None and path.exists() and not path.is_dir():
            raise StoreError(
                f"the corpus {str(path)!r} is a file; name a folder, which is created if it does not exist"
            )
        return cls(path)

    def scenarios(self) -> Iterator[tuple[Path, Parts]]:
        """Yields the first run of each scenario file, by name.

        Raises:
            StoreError: A file cannot be read as a scenario.
        """
        if self.folder is None:
            return
        for path in sorted(self.folder.glob("*.yaml")):
            try:
                prepared = prepare(path)
                yield path, listed_scenario(prepared.runs[0], prepared.beside)
            except ScenarioError as error:
                raise StoreError(f"{error.problems[0]}; mend the file, or take it out of the corpus") from error

    def keep(self, parts: Parts, guarantee: str, cause: str, aims: Sequence[str]) -> Path | None:
        """Writes a scenario; returns its file, which has the guarantee and a hash in its name.

        Raises:
            StoreError: As in `write`.
        """
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]
        heading = [f"Breaks {guarantee}: {cause}", *(f"Found by aiming at: {aim}" for aim in aims)]
        lines = [line for one in heading for line in one.splitlines()]
        return self.write(f"{guarantee}_{digest}.yaml", scenario_text(parts, lines))

    def write(self, name: str, text: str) -> Path | None:
        """Writes a file into the folder, which is created if it does not exist; returns the file.

        Raises:
            StoreError: The file cannot be written.
        """
        if self.folder is None:
            return None
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}; check the folder") from error
        return path
