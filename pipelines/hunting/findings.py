"""The findings of a hunt, the corpus of earlier findings, and the HTML page of a hunt.

The corpus is a folder with one scenario for each finding; the next hunt replays these scenarios first. The page shows
findings, the coverage by message kind and receiver status, and the message kinds that no run sent.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from pipelines.errors import ScenarioError, StoreError, plural
from pipelines.experiment.listed import Parts, listed_scenario
from pipelines.experiment.prepared import prepare
from pipelines.hunting.coverage import FATES, reached
from pipelines.scenario.yaml_text import scenario_text
from pipelines.store.roots import write_whole, writing


@dataclass(frozen=True)
class HuntFinding:
    """A guarantee that schedules break, with the cause.

    Attributes:
        cause: The cause of the first missing or repeated delivery in ``scenario``, in the words of `why`. If no
            delivery is missing or repeated, the detail of the violation.
        aims: Descriptions of the aims (targets and forms) of the first schedule that broke the guarantee with this
            cause.
        n_played: The number of the first schedule among all executed schedules, from 1.
        n_schedules: The number of schedules that broke the guarantee with this cause.
        scenario: The scenario of the first schedule, after shrinking.
        sizes: The numbers of faults, calls and nodes after and before shrinking, as a phrase.
        file: The file of ``scenario`` in the corpus; None without a corpus.
    """

    guarantee: str
    cause: str
    aims: tuple[str, ...]
    n_played: int
    n_schedules: int
    scenario: Parts
    sizes: str
    file: Path | None


@dataclass(frozen=True)
class Hunt:
    """The result of a hunt, or its intermediate result after a job.

    Attributes:
        findings: The findings, in the order of their first schedules.
        broken_again: The guarantees that scenarios of the corpus still break, by file of the corpus.
        failed_audits: The first error of each audit that raised an error. The hunt does not check the guarantee of
            this audit.
        n_beyond: The number of executed schedules with an added fault that exceed the bound.
        n_decided: The number of executed schedules within the bound that have an added fault and a verdict other than
            ``unknown``.
        n_undecided: The number of executed schedules within the bound that have verdict ``unknown``.
        n_refused: The number of schedules that the protocol rejected.
        features: The features of all runs (`coverage.features`), and the verdicts of the runs.
        kinds: The message kinds that nodes of the protocol send to each other.
        seconds: The duration of the hunt.
    """

    scenario: str
    protocol: str
    strategy: str
    findings: Sequence[HuntFinding]
    broken_again: Mapping[Path, Sequence[str]]
    failed_audits: Mapping[str, str]
    n_replayed: int
    n_played: int
    n_beyond: int
    n_decided: int
    n_undecided: int
    n_refused: int
    features: frozenset[str]
    kinds: Sequence[str]
    seconds: float

    @property
    def n_features(self) -> int:
        """The number of reached features."""
        return len(self.features)

    @property
    def n_findings(self) -> Mapping[str, int]:
        """The number of findings by broken guarantee."""
        return Counter(one.guarantee for one in self.findings)

    @property
    def unreached(self) -> list[str]:
        """The message kinds that no run sent."""
        _, table = reached(self.features, self.kinds)
        return [kind for kind, row in table.items() if not row]

    def __repr__(self) -> str:
        """Returns the numbers of schedules, findings and undecided schedules, and a line for each finding."""
        undecided = f", {self.n_undecided:,} not decided" if self.n_undecided else ""
        counts = f"{plural(len(self.findings), 'finding')}{undecided}"
        head = f"{plural(self.n_played, 'schedule')} of {self.protocol}: {counts}"
        failed = (f"{name}: not checked, {error}" for name, error in self.failed_audits.items())
        return "\n".join([head, *failed, *(f"{one.guarantee}: {one.cause}" for one in self.findings)])


@dataclass(frozen=True)
class Corpus:
    """A folder with the scenarios of earlier findings, which need not exist.

    If ``folder`` is ``None``, the corpus is disabled.
    """

    folder: Path | None

    def __post_init__(self) -> None:
        """Raises `StoreError` if ``folder`` is a file."""
        if self.folder is not None and self.folder.exists() and not self.folder.is_dir():
            hint = "name a folder, which is created if it does not exist"
            raise StoreError(f"the corpus {str(self.folder)!r} is a file; {hint}")

    def scenarios(self) -> Iterator[tuple[Path, Parts]]:
        """Yields the path and the first run of each scenario file in the corpus, in the order of file names.

        Raises:
            StoreError: A file is not a valid scenario.
        """
        if self.folder is None:
            return
        for path in sorted(self.folder.glob("*.yaml")):
            try:
                prepared = prepare(path)
                yield path, listed_scenario(prepared.runs[0], prepared.beside)
            except ScenarioError as error:
                raise StoreError(f"{error.problems[0]}; correct the file, or remove it from the corpus") from error

    def keep(self, parts: Parts, guarantee: str, cause: str, aims: Sequence[str]) -> Path | None:
        """Writes a scenario into the corpus, in a file named by the guarantee and a hash of the scenario.

        A file that exists keeps its heading: several findings may have the same scenario after shrinking.

        Returns the path of the file, or None if the corpus is disabled.

        Raises:
            QueryError: The file cannot be written.
        """
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]
        name = f"{guarantee}_{digest}.yaml"
        if self.folder is not None and (self.folder / name).is_file():
            return self.folder / name
        heading = [f"Breaks {guarantee}: {cause}", *(f"Found by aiming at: {aim}" for aim in aims)]
        lines = [line for one in heading for line in one.splitlines()]
        return self.write(name, scenario_text(parts, lines))

    def write(self, name: str, text: str) -> Path | None:
        """Writes a file into the folder of the corpus, and creates the folder if necessary.

        Returns the path of the file, or None if the corpus is disabled.

        Raises:
            QueryError: The file cannot be written.
        """
        if self.folder is None:
            return None
        path = self.folder / name
        with writing(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
        return path


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: #1b1b1b; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border: 1px solid #c8c8c8; padding: .25rem .6rem; text-align: left; vertical-align: top; }
.coverage td { background: #dcecdc; } .coverage td:empty { background: #f3d9d3; } h1, h2, p { overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #161616; } th, td { border-color: #444; }
  .coverage td { background: #24452a; } .coverage td:empty { background: #5a2a22; }
}
"""


def page(hunt: Hunt) -> str:
    """Returns the HTML page of a hunt. The page loads no other file."""
    heading = escape(f"Hunt: {hunt.scenario} ({hunt.protocol})")
    statuses, fates = reached(hunt.features, hunt.kinds)
    counts = [
        ("schedules played", f"{hunt.n_played:,} ({hunt.strategy})"), ("seconds", f"{hunt.seconds:,.0f}"),
        ("beyond the bound", f"{hunt.n_beyond:,}"), ("refused by the protocol", f"{hunt.n_refused:,}"),
        ("not decided within the bound", f"{hunt.n_undecided:,}"), ("features reached", f"{hunt.n_features:,}"),
        ("scenarios of the corpus replayed", f"{hunt.n_replayed:,}"),
        *((f"audit {name} failed", error) for name, error in hunt.failed_audits.items()),
    ]  # fmt: skip
    findings = [
        (one.guarantee, one.cause, "; ".join(one.aims), f"{one.n_played:,}", f"{one.n_schedules:,}", one.sizes,
         "" if one.file is None else f"roundtable run {one.file}")
        for one in hunt.findings
    ]  # fmt: skip
    names = ("guarantee", "cause", "aimed at", "found by schedule", "schedules", "smallest scenario", "run it")
    again = [(str(path), ", ".join(broken)) for path, broken in hunt.broken_again.items()]
    coverage = [
        (kind, *(", ".join(fate for fate in FATES if fate in row.get(status, ())) for status in statuses))
        for kind, row in fates.items()
    ]
    others = [one for one in sorted(hunt.features) if one.split(" ")[0] in ("status", "fault", "verdict")]
    parts = [
        _table((), counts),
        "<h2>Findings</h2>",
        _table(names, findings) if findings else f"<p>None in {plural(hunt.n_played, 'schedule')}.</p>",
        "<h2>Findings of earlier hunts that are still broken</h2>" if again else "",
        _table(("scenario", "breaks"), again) if again else "",
        "<h2>Coverage</h2><p>The fates of messages, by kind and by the status of their receiver. An empty cell was "
        "never reached, so the scenario does not test it.</p>",
        _table(("kind of message", *statuses), coverage, "coverage"),
        f"<p>Kinds that no run sent: {escape(', '.join(hunt.unreached) or 'none')}.</p>",
        f"<h2>Statuses, faults, verdicts</h2><p>{escape('; '.join(others))}.</p>",
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>{heading}</h1>{''.join(parts)}</body></html>\n"
    )


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], name: str = "") -> str:
    lines = [f"<th>{'</th><th>'.join(map(escape, names))}</th>"] if names else []
    lines += [f"<td>{'</td><td>'.join(map(escape, row))}</td>" for row in rows]
    return f'<table class="{name}"><tr>{"</tr><tr>".join(lines)}</tr></table>'
