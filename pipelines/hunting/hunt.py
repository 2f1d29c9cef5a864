"""Runs a hunt.

Each job executes and audits many schedules. The hunt then extends the schedules that reached new features.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pyspark.sql import SparkSession

from pipelines.audits.run import AuditReport, audit_store
from pipelines.engines.names import AskedEngine, asked_engine
from pipelines.engines.session import Session, open_session
from pipelines.errors import NodeProgramError, QueryError, checked, plural
from pipelines.experiment.listed import Parts
from pipelines.experiment.prepared import Prepared, prepare
from pipelines.hunting.coverage import features, targets
from pipelines.hunting.findings import Corpus, Hunt, HuntFinding
from pipelines.hunting.schedules import FORMS, BaseRun, Schedule, Target, aimed, all_crashes, drawn, with_calls
from pipelines.hunting.shrink import Playable, labelled_runs, minimal, played, played_whole, runnable
from pipelines.inputs.overlay.build import graph_of
from pipelines.protocols import protocol_named
from pipelines.sql.query import StoreReader
from pipelines.why.overview import overview

Strategy = Literal["guided", "aimed", "exhaustive", "random"]
STRATEGIES: tuple[Strategy, ...] = ("guided", "aimed", "exhaustive", "random")
RUNS = 1_000
_AT_ONCE = 100, 400
"""The least and the largest number of schedules in a job after the first one.

In between, a job has half of the number of schedules executed before. Large jobs save audits, which take 2 to 3 CPU
seconds per job. Small jobs let a schedule extend the schedules of earlier jobs.
"""
_AT_FIRST = 25
"""The number of schedules in the first job. It is small, so that the hunt reports frequent findings early."""
FAILS = "program_fails"
"""The name of a guarantee of all protocols: no handler of a node program raises an exception."""
_MOST_STAGES = 3
"""The maximum number of aims in a schedule."""
_PROBES = 8
"""Limits the schedules that exceed the bound, for each form, in a hunt ``within_bound``.

If n schedules of a form were within the bound, and _PROBES * (1 + n) exceeded it, the hunt skips the form.
"""
_MOST_REFUSED = 1000
"""The number of successive rejected schedules after which a hunt ends: a protocol may reject all faults."""
_SEEDS = 8
"""The number of base runs, which differ in their seed, if the scenario has one run and its protocol is random."""
_MOST_BASES = 100
"""The maximum number of base runs."""
_DETECTION_ROUNDS = 5
"""The assumed number of rounds until a crash is detected, for protocols without setting ``detection_rounds``."""


@checked
def hunt(
    scenario: str | Path | Mapping[str, Any], runs: int = RUNS, minutes: float | None = None,
    within_bound: bool = False, corpus: str | Path | None = None, strategy: Strategy = "guided", seed: int = 0,
    excused: bool = False, crashes: int = 2, window: tuple[int, int] | None = None, until_found: bool = False,
    shrinks: bool = True, spark: SparkSession | None = None, engine: AskedEngine | None = None,
    overrides: str | Sequence[str] = (),
    observe: Callable[[Hunt], None] = lambda _: None, say: Callable[[str], None] = lambda _: None,
) -> Hunt:  # fmt: skip
    """Searches for fault schedules that break a guarantee in the runs of a scenario.

    A schedule adds faults to one *base run*. The base runs are the first `_MOST_BASES` runs of the scenario. If several
    runs have equal inputs and messages, only the first of them is a base run. If the scenario has one run, and its
    messages depend on the seed, runs with other seeds are also base runs.

    Args:
        scenario: As in `api.run`. The faults of the scenario are part of all schedules.
        runs: The maximum number of schedules; 0 only replays the corpus.
        minutes: The maximum duration, checked after each job; None for no limit.
        within_bound: Whether to prefer schedules within the protocol's bound. If true, the hunt omits base runs that
            exceed the bound, and does not extend schedules that exceed it. It also skips a form whose schedules nearly
            always exceed the bound.
        corpus: The folder for the scenarios of findings. Scenarios in it are replayed first. None disables the corpus.
        strategy: ``aimed`` executes schedules whose faults target one message of an earlier run. ``guided`` also
            executes extensions: if a schedule reaches a new feature (`coverage.features`), the hunt adds more faults
            to it. ``exhaustive`` executes all schedules of crashes in ``window``. ``random`` executes random
            schedules, as a control.
        seed: The seed of random schedules.
        excused: Whether violations count as findings if faults beyond the bound excuse them.
        crashes: For ``exhaustive``, the maximum number of crashes in a schedule.
        window: For ``exhaustive``, the first and last round of crashes; None for the rounds of the first and last
            message.
        until_found: Whether to stop after the first job with a finding.
        shrinks: Whether to shrink the scenarios of findings.
        spark: As in `api.run`.
        engine: As in `api.run`.
        overrides: As in `api.run`.
        observe: Receives the intermediate result after each job.
        say: Receives a line for each step.

    Raises:
        ScenarioError: The scenario or one of its files is invalid.
        QueryError: The strategy is unknown or has no window, a number is too low, or the scenario sends no message.
        NodeProgramError: A handler fails without a schedule.
        EngineError: The engine cannot start.
    """
    if strategy not in STRATEGIES:
        raise QueryError(f"strategy {strategy!r} does not exist; allowed: {', '.join(STRATEGIES)}")
    if window and strategy != "exhaustive":
        raise QueryError(f"strategy {strategy} has no window of rounds; leave window out, or choose exhaustive")
    for name, n, least in (("runs", runs, 0), ("crashes", crashes, 1), ("seed", seed, 0)):
        if n < least:
            raise QueryError(f"{name} is {n}; allowed: a whole number, {least} or more")
    if minutes is not None and minutes < 0:
        raise QueryError(f"minutes is {minutes}; allowed: 0 or more, or None")
    prepared = prepare(scenario, overrides)
    if window and window[1] > prepared.horizon:
        raise QueryError(f"window ends in round {window[1]}, after the horizon; allowed: up to {prepared.horizon}")
    with ExitStack() as closing:
        wanted = asked_engine(engine, prepared.scenario.engine)
        session = closing.enter_context(open_session(wanted, spark, say, is_small=True))
        search = _Search(
            prepared, session, Corpus(None if corpus is None else Path(corpus)), strategy, say, observe,
            is_within=within_bound, is_excused=excused, shrinks=shrinks, minutes=minutes,
        )  # fmt: skip
        search.replay()
        if runs:
            try:
                search.begin(runs)
            except NodeProgramError as error:
                raise NodeProgramError(f"the program fails without a schedule; correct it first: {error}") from error
            chosen: Mapping[Strategy, Callable[[], Iterator[Schedule | None]]] = {
                "guided": search.guided,
                "aimed": lambda: aimed(search.bases),
                "exhaustive": lambda: search.exhaustive(crashes, window),
                "random": lambda: drawn(search.bases, np.random.default_rng(seed)),
            }
            search.run(chosen[strategy](), runs, until_found=until_found)
        return search.found()


class _Search:
    def __init__(
        self, prepared: Prepared, session: Session, corpus: Corpus, strategy: Strategy, say: Callable[[str], None],
        observe: Callable[[Hunt], None], *, is_within: bool, is_excused: bool, shrinks: bool, minutes: float | None,
    ) -> None:  # fmt: skip
        name = prepared.runs[0].scenario.protocol.name
        self._runs = [run for run in prepared.runs if run.scenario.protocol.name == name]
        self._beside, self._name, self._strategy = prepared.beside, prepared.scenario.name, strategy
        self._session, self._corpus, self._say, self._observe = session, corpus, say, observe
        self._is_within, self._is_excused, self._shrinks = is_within, is_excused, shrinks
        self._protocol = protocol_named(str(name))
        self._playable: list[tuple[Parts, Playable]] = []  # the scenario and the built run of each base run
        self._begun = time.monotonic()
        self._until = None if minutes is None else self._begun + 60 * minutes
        self._names: frozenset[str] = frozenset()  # the names of the nodes of all overlays
        self._keys, self._features = set[str](), set[str]()
        self._forms: dict[str, Counter[bool]] = defaultdict(Counter)
        self._findings: dict[tuple[str, str], HuntFinding] = {}
        self._known: set[tuple[str, str]] = set()
        self._merged: dict[tuple[str, str], tuple[str, str]] = {}
        self._broken_again: dict[Path, list[str]] = {}
        self._failed_audits: dict[str, str] = {}
        self._pool: deque[Iterator[Schedule]] = deque()  # the extensions of each extended schedule
        self._counts = Counter[str]()
        self.bases: list[BaseRun] = []
        if len(self._runs) < len(prepared.runs):
            say(f"runs of protocols other than {name} are not hunted; set protocol.name to hunt them")

    def replay(self) -> None:
        """Executes the scenarios of the corpus, and reports the scenarios that still break a guarantee.

        The violations of these scenarios do not become findings again.
        """
        for path, parts in self._corpus.scenarios():
            if (run := runnable(parts)) is None or run.run.scenario.protocol.name != self._protocol.name:
                self._say(f"{path} is not replayed: its scenario is rejected, or has another protocol")
                continue
            self._counts["replayed"] += 1
            self._names |= {*run.built[0].names}
            try:
                with played([run], self._session) as reader:
                    broken = self._violations(self._audited(reader)).get(0, {})
            except NodeProgramError as error:
                broken = {FAILS: str(error)}
            if broken:
                self._broken_again[path] = sorted(broken)
                self._known |= {self._key(guarantee, detail) for guarantee, detail in broken.items()}
                self._say(f"{path} still breaks {', '.join(sorted(broken))}")

    def begin(self, most: int) -> None:
        """Executes the base runs, and collects their targets.

        Args:
            most: The maximum number of schedules of the hunt. It also limits the number of base runs.

        Raises:
            QueryError: The scenario sends no message, or its first run breaks a guarantee without a schedule.
        """
        runs = self._runs[: min(_MOST_BASES, most + 1)]
        if len(runs) < len(self._runs):
            self._say(f"the scenario has {len(self._runs):,} runs; the first {len(runs):,} are hunted")
        chosen = labelled_runs(runs, self._beside, min(_SEEDS - 1, most) if len(self._runs) == 1 else 0)
        with played([run for _, _, run in chosen], self._session) as reader:
            report = self._audited(reader)
            violations = self._violations(report)
            if broken := violations.pop(0, None):
                raise QueryError(f"the scenario breaks {', '.join(broken)} as it is; shrink that run first")
            found = targets(reader, range(len(chosen)))
            reached = features(reader)
        if any(one.run_id == 0 and one.verdict == "unknown" for one in report.runs):
            self._say("the scenario itself is not decided, see roundtable audit; give it more rounds")
        inputs = [
            [dict(parts, name=None, runs=None), found[n], sorted(reached.get(n, ()))]
            for n, (_, parts, _) in enumerate(chosen)
        ]
        kept = self._kept(inputs, {run.run_id for run in report.beyond}, violations)
        self._names |= {name for _, _, run in chosen for name in run.built[0].names}
        self._count_undecided(report, {*kept} - {0})
        for run_id in kept:
            label, parts, run = chosen[run_id]
            self._playable.append((parts, run))
            detection = getattr(run.run.scenario.protocol, "detection_rounds", _DETECTION_ROUNDS)
            graph, names = graph_of(run.built[0]), run.built[0].names
            around = {name: [names[other] for other in graph[node]] for node, name in enumerate(names)}
            self.bases.append(BaseRun(around, detection, found[run_id], label))
            self._features |= reached.get(run_id, frozenset())
            if run_id:
                schedule = Schedule((), (label,), "none", len(self.bases) - 1)
                self._keys.add(schedule.key)
                self._counts["played"] += 1
                for guarantee, detail in violations.get(run_id, {}).items():
                    self._take(guarantee, detail, schedule, self._counts["played"])
        if not any(base.targets for base in self.bases):
            raise QueryError("the scenario sends no message to aim at; add subscriptions and publications")
        kinds = {target.kind for base in self.bases for target in base.targets}
        n_targets = sum(len(base.targets) for base in self.bases)
        in_runs = f" in {len(self.bases)} runs" if len(self.bases) > 1 else ""
        self._say(f"{plural(len(kinds), 'kind')} of messages, {plural(n_targets, 'message')} to aim at{in_runs}")

    def _kept(self, runs: Sequence[Any], beyond: Container[int], broken: Container[int]) -> list[int]:
        """Returns the ids of the runs that become base runs.

        Omits a run whose inputs, targets and features equal those of an earlier run; only their seeds differ. In a hunt
        within the bound, also omits the runs ``beyond`` the bound, unless all runs exceed the bound. Keeps the runs
        ``broken`` that break a guarantee.
        """
        kept: dict[str, int] = {}
        for run_id, of_run in enumerate(runs):
            kept.setdefault(f"run {run_id}" if run_id in broken else json.dumps(of_run, sort_keys=True), run_id)
        within = [run_id for run_id in kept.values() if run_id in broken or run_id not in beyond]
        if not self._is_within or len(within) in (0, len(kept)):
            return [*kept.values()]
        self._say(f"{plural(len(kept) - len(within), 'run')} beyond the bound without a schedule: not hunted")
        return within

    def guided(self) -> Iterator[Schedule | None]:
        """Yields aimed schedules, alternating with extensions of schedules that reached new features.

        Yields None if no schedule is available until a job adds extensions.
        """
        aims = aimed(self.bases)
        while True:
            first, second = next(aims, None), self._next_of_pool()
            if first is None and second is None:
                yield None
            yield from (one for one in (first, second) if one is not None)

    def _next_of_pool(self) -> Schedule | None:
        while self._pool:
            source = self._pool.popleft()
            if (schedule := next(source, None)) is not None:
                self._pool.append(source)
                return schedule
        return None

    def exhaustive(self, most: int, window: tuple[int, int] | None) -> Iterator[Schedule]:
        """Returns the schedules of `all_crashes`; additional seeds of a scenario with one run get no schedule."""
        n_runs = 1 if len(self._runs) == 1 else len(self.bases)
        graphs = [with_calls(*playable.built[:2]) for _, playable in self._playable[:n_runs]]
        return all_crashes(self.bases[:n_runs], graphs, most, window, self._say)

    def run(self, schedules: Iterator[Schedule | None], most: int, *, until_found: bool) -> None:
        """Executes schedules, one job after the other.

        The search ends after ``most`` schedules, after the job that exceeds the time limit, or, with ``until_found``,
        after the first job with a finding. It executes at least one job.
        """
        size = _AT_FIRST
        while self._counts["played"] < most and not (until_found and self._findings):
            batch = self._batch(schedules, min(size, most - self._counts["played"]))
            if not batch:
                break
            played_whole(batch, self._play_job, self._take_failure)
            size = int(np.clip(self._counts["played"] // 2, *_AT_ONCE))
            self._observe(self.found())
            if self._is_late:
                break

    @property
    def _is_late(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    def _batch(self, schedules: Iterator[Schedule | None], size: int) -> list[tuple[Schedule, Playable]]:
        """Returns up to ``size`` schedules that the hunt has not executed, each with its run."""
        found: list[tuple[Schedule, Playable]] = []
        n_refused = 0
        for schedule in schedules:
            if schedule is None or n_refused == _MOST_REFUSED:
                break
            if schedule.key not in self._keys and self._is_promising(schedule):
                self._keys.add(schedule.key)
                run = runnable(self._with(schedule), self._playable[schedule.base][1])
                self._counts["refused"] += run is None
                n_refused = n_refused + 1 if run is None else 0
                if run is not None:
                    found.append((schedule, run))
            if len(found) == size:
                break
        if not found and n_refused == _MOST_REFUSED:
            self._say(f"the hunt ends: {n_refused:,} successive schedules were rejected")
        return found

    def _is_promising(self, schedule: Schedule) -> bool:
        counted = self._forms[schedule.form]
        return not (self._is_within and schedule.form in FORMS) or counted[True] < _PROBES * (1 + counted[False])

    def _with(self, schedule: Schedule) -> Parts:
        parts, _ = self._playable[schedule.base]
        return {**parts, "faults": [*parts.get("faults", ()), *schedule.faults]}

    def _take_failure(self, failed: tuple[Schedule, Playable], error: NodeProgramError) -> None:
        self._counts["played"] += 1
        self._take(FAILS, str(error), failed[0], self._counts["played"])

    def _play_job(self, batch: Sequence[tuple[Schedule, Playable]]) -> None:
        with played([run for _, run in batch], self._session) as reader:
            report = self._audited(reader)
            beyond = {one.run_id for one in report.beyond}
            broken = self._violations(report)
            new = self._new_features(reader, report, beyond)
            further = targets(reader, new)
        for run_id, (schedule, _) in enumerate(batch):
            self._forms[schedule.form][run_id in beyond] += 1
            if run_id in further and len(schedule.aims) < _MOST_STAGES:
                self._vary(schedule, further[run_id])
        self._count_undecided(report, range(len(batch)))
        self._counts["decided"] += sum(run.verdict != "unknown" and run.within_bound is True for run in report.runs)
        for run_id, of_run in sorted(broken.items()):
            for guarantee, detail in of_run.items():
                self._take(guarantee, detail, batch[run_id][0], self._counts["played"] + run_id + 1)
        self._counts["played"] += len(batch)

    def _audited(self, reader: StoreReader) -> AuditReport:
        report = audit_store(reader, self._protocol)
        for finding in report.findings:
            if finding.error is not None and finding.name not in self._failed_audits:
                self._failed_audits[finding.name] = finding.error
                self._say(f"audit {finding.name} failed, so the hunt does not check its guarantee: {finding.error}")
        return report

    def _count_undecided(self, report: AuditReport, runs: Container[int]) -> None:
        self._counts["undecided"] += sum(
            run.run_id in runs and run.verdict == "unknown" and run.within_bound for run in report.runs
        )

    def _vary(self, schedule: Schedule, found: Sequence[Target]) -> None:
        """Adds extensions of ``schedule`` to the pool: one for each form and each target in ``found``.

        A target comes first if no earlier target has its message kind and receiver status. Successive calls start
        with successive forms, so that a few extensions of many schedules cover all forms.
        """
        known = {target[:2] for base in self.bases for target in base.targets}
        new_first = sorted(found, key=lambda target: target[:2] in known)
        self._counts["varied"] += 1
        base = replace(self.bases[schedule.base], targets=new_first, label="")
        self._pool.append(map(schedule.also, aimed([base], self._counts["varied"] - 1)))

    def _new_features(self, reader: StoreReader, report: AuditReport, beyond: set[int]) -> list[int]:
        """Adds the features of a job to the coverage. Returns the ids of the runs with new features."""
        found, new = features(reader), []
        verdicts = {run.run_id: f"verdict {run.verdict}" for run in report.runs}
        for run_id, of_run in sorted(found.items()):
            all_of_run = of_run | {f"{verdicts[run_id]}{' beyond' if run_id in beyond else ''}"}
            if all_of_run - self._features and not (self._is_within and run_id in beyond):
                new.append(run_id)
            self._features |= all_of_run
        return new

    def _violations(self, report: AuditReport) -> dict[int, dict[str, str]]:
        """Maps each run to its broken guarantees, and each guarantee to the alphabetically first detail."""
        order = [(name, "ascending") for name in ("run_id", "guarantee", "detail")]
        found: dict[int, dict[str, str]] = {}
        for row in report.violation.sort_by(order).to_pylist():
            if self._is_excused or not row["excused"]:
                found.setdefault(row["run_id"], {}).setdefault(row["guarantee"], row["detail"])
        return found

    def _key(self, guarantee: str, detail: str) -> tuple[str, str]:
        """Returns the key of a violation: its guarantee, and its detail without numbers, rounds and node names."""
        return guarantee, re.sub(r"rounds? \d+(?: to \d+)?|\d+", "#", _any_of(self._names).sub("node", detail))

    def _take(self, guarantee: str, detail: str, schedule: Schedule, n_played: int) -> None:
        """Adds a violation to the findings.

        The first violation with a key (`_key`) becomes a finding; its scenario is shrunk and stored. Later violations
        with this key are counted. Violations with the key of a violation that `replay` found are ignored.
        """
        key = self._key(guarantee, detail)
        if key in self._known:
            return
        key = self._merged.get(key, key)
        if key not in self._findings:
            self._say(f"{guarantee} is broken by schedule {n_played:,}: {'; '.join(schedule.aims)}")
            found = self._found(guarantee, detail, schedule, n_played)
            self._merged[key] = key = self._key(guarantee, found.cause)
            self._findings.setdefault(key, found)
        known = self._findings[key]
        self._findings[key] = replace(known, n_schedules=known.n_schedules + 1)

    def _found(self, guarantee: str, detail: str, schedule: Schedule, n_played: int) -> HuntFinding:
        whole = self._with(schedule)
        is_shrunk = self._shrinks and not self._is_late and guarantee != FAILS
        smallest = minimal(whole, guarantee, self._session, is_excused=self._is_excused) if is_shrunk else None
        parts = whole if smallest is None else smallest.parts
        cause = (self._cause(parts) if self._shrinks and guarantee != FAILS else "") or detail
        known = self._findings.get(self._key(guarantee, cause))
        file = self._corpus.keep(parts, guarantee, cause, schedule.aims) if known is None else known.file
        sizes = "not broken when executed alone" if is_shrunk else "not shrunk"
        return HuntFinding(
            guarantee, cause, schedule.aims, n_played, 0, parts, sizes if smallest is None else smallest.sizes, file
        )

    def _cause(self, parts: Parts) -> str:
        """Returns the cause of the first missing or repeated delivery in a scenario; an empty string without one."""
        if (run := runnable(parts)) is None:
            return ""
        with played([run], self._session) as reader:
            groups = overview(reader, 0).groups
        return next((f"{one.what}: {one.cause}" for one in groups if one.what in ("missing", "twice")), "")

    def found(self) -> Hunt:
        """Returns the result of the executed jobs."""
        counts, n_beyond = self._counts, sum(counted[True] for counted in self._forms.values())
        return Hunt(
            self._name, self._protocol.name, self._strategy, tuple(self._findings.values()),
            self._broken_again, self._failed_audits, counts["replayed"], counts["played"],
            n_beyond, counts["decided"], counts["undecided"], counts["refused"], frozenset(self._features),
            tuple(kind for kind in self._protocol.kinds if kind != self._protocol.program.down_kind),
            time.monotonic() - self._begun,
        )  # fmt: skip


@lru_cache(maxsize=4)
def _any_of(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})\b")
