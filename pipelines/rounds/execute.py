"""Runs an experiment into a store, from the first round or from the last commit of the store.

If an executor is lost, Spark runs its tasks again. But Spark cannot recompute a relation whose lineage a checkpoint
truncated, because its rows existed only in the memory of the lost executor. The job then fails, while the session and
the remaining executors continue. `execute_and_survive` resumes from the last commit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.contract.forms import AskedForm, Form
from pipelines.contract.nodes import ProgramForm
from pipelines.contract.round import IN_FLIGHT, STATE, DataflowForm, RunTables, Start, state_tables, stored_tables
from pipelines.contract.rows import ties_named
from pipelines.contract.run_inputs import Inputs
from pipelines.engines.checkpoints import Checkpoints, checkpoints_for
from pipelines.engines.frames import arrow_of
from pipelines.engines.paths import delta_paths
from pipelines.engines.session import Session
from pipelines.errors import EngineError
from pipelines.experiment.build import parameters_json, setting_rows
from pipelines.experiment.jobs import FEW_ROWS, Batch, batches_of, forms_of, has_small_load, jobs_of
from pipelines.experiment.manifest import versions
from pipelines.protocols import PROTOCOLS, protocol_form
from pipelines.rounds.blocks import Blocks
from pipelines.rounds.commit import CallLog, History
from pipelines.rounds.engine import RoundEngine
from pipelines.rounds.loop import Loop, Rounds
from pipelines.rounds.progress import Progress
from pipelines.rounds.schedule import Calls, Crashes, crash_events, links_ever
from pipelines.scenario.load import RunConfig
from pipelines.store.damage import messages
from pipelines.store.folder import resume_hint
from pipelines.store.ledger import Commit, Ledger
from pipelines.store.store import Store
from pipelines.tables import CALL_LOG, CONTROL_CALL, FAULT_EVENT, HISTORY, LINK, MESSAGE, NODE, PREDICATE, RUN

_LOST = re.compile(
    r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block \S+ not found|ExecutorLostFailure|FetchFailed"
    r"|MetadataFetchFailedException|Failed to get broadcast_|BlockNotFoundException|Could not get block\(s\)"
    r"|Executor \S+ is (?:lost|dead)|ExecutorDeadException|Python worker exited unexpectedly",
)
MOST_LOSSES = 4
"""The maximum number of lost executors between two commits."""


@dataclass(frozen=True)
class Experiment:
    """Expanded runs with their inputs and options.

    Attributes:
        runs: The expanded runs; the runs of one protocol are adjacent.
        inputs: The overlays, workloads and faults of the runs.
        commit_every: The number of rounds between two commits; None selects a default.
        batch_runs: The number of runs in a batch; None puts all runs with one protocol and horizon into one batch.
        rounds_per_job: The number of rounds of a job; None selects a default.
        form: The requested form.
    """

    runs: Sequence[RunConfig]
    inputs: Inputs
    commit_every: int | None
    batch_runs: int | None = None
    rounds_per_job: int | None = None
    form: AskedForm = "auto"

    @property
    def protocols(self) -> list[str]:
        """The distinct protocols of the runs, in the order of the runs."""
        return list(dict.fromkeys(run.scenario.protocol.name for run in self.runs))

    @cached_property
    def forms(self) -> Mapping[str, tuple[Form, str]]:
        """Maps each protocol to its form and the reason for this form; raises the errors of `forms_of`."""
        return forms_of(self.protocols, self.form, self.inputs.most_nodes, self.inputs.faults)

    def of(self, batch: Batch) -> Experiment:
        """Returns the experiment with the runs of `batch` only."""
        if batch.n_batches == 1:
            return self
        runs = [run for run in self.runs if batch.first_run <= run.run_id <= batch.last_run]
        return replace(self, runs=runs, inputs=self.inputs.of_runs(batch.first_run, batch.last_run))


def execute(
    experiment: Experiment, session: Session, store: Store, observe: Callable[[Progress], None],
    start: Callable[[Batch], None] = lambda _: None,
) -> None:  # fmt: skip
    """Executes all rounds of all runs, one batch after the other.

    If the store has a commit, the function removes the rows that were written after the last commit, and resumes from
    this commit. The final tables equal the tables of an uninterrupted run. The verdicts of the runs stay null until the
    audits compute them.

    Args:
        experiment: The runs with their inputs and options.
        session: The engine.
        store: A new store, or a store whose runs are unfinished.
        observe: Receives the progress after each job.
        start: Receives each batch before the rounds of the batch are executed.
    """
    session.ship_udfs()
    protocols = {name: protocol_form(name, form) for name, (form, _) in experiment.forms.items()}
    last = last_commit(store)
    if last is None:
        store.create(HISTORY)
        store.create(stored_tables(protocols), is_state=True)
        store.load(RUN.name, _run_rows(experiment, session))
    else:
        store.rewind(last.versions)
    tables = state_tables(protocols)
    for batch in batches_of(experiment.runs, experiment.batch_runs):
        if last is not None and last.has_ended(batch.first_run):
            continue
        start(batch)
        part, is_begun = experiment.of(batch), last is not None and last.first_run == batch.first_run
        store.is_small = small = part.inputs.n_state_rows <= FEW_ROWS
        is_light = has_small_load([experiment.forms[batch.protocol][0]], is_small=small)
        with (
            ties_named(), session.activated(), session.suited(is_small=is_light),
            closing(checkpoints_for(session, len(part.runs), is_small=small)) as checkpoints,
        ):  # fmt: skip
            names = {name: table.name for name, table in tables[batch.protocol].items()}
            _run(part, batch, protocols[batch.protocol], names, store, checkpoints, last if is_begun else None, observe)


def _run(
    experiment: Experiment, batch: Batch, protocol: ProgramForm | DataflowForm, names: Mapping[str, str], store: Store,
    checkpoints: Checkpoints, last: Commit | None, observe: Callable[[Progress], None],
) -> None:  # fmt: skip
    inputs = experiment.inputs
    setting = setting_rows(experiment.runs)
    crashes = Crashes(inputs.crash, len(setting), checkpoints)
    calls = Calls(inputs, checkpoints)

    def stored(name: str, at: Commit) -> DataFrame:
        return store.read(name, at.versions[name]).where(at.own_runs)

    log = CallLog(
        inputs.call, inputs.subscription, inputs.publication, inputs.crash,
        confirms=PROTOCOLS[batch.protocol].confirms,
        rows=None if last is None else arrow_of(stored(CALL_LOG.name, last)),
    )  # fmt: skip
    history = History(store, batch, log, names)
    jobs = jobs_of(
        form="program" if isinstance(protocol, ProgramForm) else "dataflow", n_runs=len(experiment.runs),
        asked=experiment.rounds_per_job, commit_every=experiment.commit_every,
    )  # fmt: skip

    def state(at: Commit) -> dict[str, DataFrame]:
        whole = [known.table.name for known in protocol.states if known.derived_from is None]
        return {name: stored(names[f"{STATE}{name}"], at) for name in whole}

    if last is None:
        _write_inputs(inputs, batch.horizon, store)
    rounds: Rounds
    if isinstance(protocol, ProgramForm):
        rounds = blocks = Blocks(protocol, store.session, calls, crashes, history, inputs, setting)
        if last is not None:
            messages = stored(names[IN_FLIGHT], last), stored(MESSAGE.name, last)
            blocks.resume(last.last_round, state(last), *messages)
    else:
        load = checkpoints.load
        run = RunTables(load(inputs.node), load(inputs.link, "src"), load(setting), load(inputs.subscription))
        start = _start(experiment, run, calls.all(), checkpoints)
        rounds = engine = RoundEngine(
            name=batch.protocol, protocol=protocol, checkpoints=checkpoints, calls=calls, history=history,
            crashes=crashes, run=run, latency=inputs.latency, settings=start.settings,
        )  # fmt: skip
        if last is None:
            engine.start(protocol.start(start))
        else:
            engine.resume(last.last_round, state(last), stored(names[IN_FLIGHT], last))
    with closing(rounds):
        Loop(rounds, jobs, batch.horizon).run(inputs.scheduled_round(batch.horizon), observe)


def _start(experiment: Experiment, run: RunTables, calls: DataFrame, keep: Checkpoints) -> Start:
    joining = calls.where("kind = 'join'").select("run_id", "node_id")

    def paths(max_hops: int) -> DataFrame:
        link = run.link.select("run_id", "src", "dst")
        for end in ("src", "dst"):
            link = link.join(joining.withColumnRenamed("node_id", end), ["run_id", end], "left_anti")
        link = keep("initial_link", link)
        node = run.node.join(joining, ["run_id", "node_id"], "left_anti").select("run_id", "node_id")
        found = delta_paths(keep.session, link, max_hops).where("distance > 0")
        own = node.selectExpr(
            "run_id", "node_id", "node_id as target", "0 as distance", "array(node_id) as path",
            "node_id as responsible",
        )  # fmt: skip
        return own.unionByName(found)

    settings = {repr(one.scenario.protocol): one.scenario.protocol for one in experiment.runs}
    return Start(run, calls, paths, [settings[text] for text in sorted(settings)], keep)


def _write_inputs(inputs: Inputs, horizon: int, store: Store) -> None:
    store.load(NODE.name, inputs.node)
    store.load(LINK.name, links_ever(inputs.replacement, inputs.link))
    store.load(PREDICATE.name, inputs.predicate)
    store.load(CONTROL_CALL.name, inputs.control_calls)
    faults = [inputs.fault_event.select(FAULT_EVENT.columns), crash_events(inputs.crash, horizon)]
    store.load(FAULT_EVENT.name, pa.concat_tables(faults))


def _run_rows(experiment: Experiment, session: Session) -> pa.Table:
    texts = {name: json.dumps(versions([name]), sort_keys=True) for name in experiment.protocols}
    rows = [
        {
            "run_id": run.run_id, "scenario": run.scenario.name, "protocol": run.scenario.protocol.name,
            "seed": run.seed, "round_ms": run.scenario.time.round_ms, "parameters": parameters_json(run),
            "engine": session.engine, "form": experiment.forms[run.scenario.protocol.name][0],
            "versions": texts[run.scenario.protocol.name],
        }
        for run in experiment.runs
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, to_arrow_schema(RUN.schema))


def is_executor_lost(error: BaseException) -> bool:
    """Returns whether `error`, the error of a job, reports the loss of an executor or of its Python worker."""
    return any(map(_LOST.search, messages(error)))


def execute_and_survive(
    experiment: Experiment, session: Session, open_store: Callable[[], Store], observe: Callable[[Progress], None],
    start: Callable[[Batch], None], say: Callable[[str], None],
) -> None:  # fmt: skip
    """Calls `execute`. If an executor is lost, calls `execute` again, which resumes from the last commit.

    `open_store` opens the store before each call: a `Store` caches table versions, which are wrong after a failure.
    `say` receives a line for each loss. The next `Progress` subtracts the messages of the rounds that are repeated.

    Raises:
        EngineError: Executors were lost more than `MOST_LOSSES` times without a commit in between.
    """
    n_losses, before = 0, last_commit(open_store())
    batch: Batch | None = None
    seen: list[Progress] = []  # the jobs of the batch since its start, or since the last loss
    n_repeated = 0

    def begin(begun: Batch) -> None:
        nonlocal batch
        batch = begun
        seen.clear()
        start(begun)

    def count(progress: Progress) -> None:
        nonlocal n_repeated
        seen.append(progress)
        observe(replace(progress, n_handled=progress.n_handled - n_repeated))
        n_repeated = 0

    while True:
        try:
            execute(experiment, session, open_store(), count, begin)
        except Exception as error:
            if not is_executor_lost(error):
                raise
            last = last_commit(open_store())
            n_losses = n_losses + 1 if last == before else 1
            before = last
            is_begun = last is not None and batch is not None and last.first_run == batch.first_run
            kept = -2 if last is None or not is_begun else last.last_round  # the first block ends in round -1 or later
            n_repeated += sum(job.n_handled for job in seen if job.round > kept)
            seen.clear()
            if n_losses > MOST_LOSSES:
                hint = "nothing was committed" if last is None else resume_hint(open_store().root)
                raise EngineError(
                    f"executors or their Python workers died {n_losses} times without a commit between: give them more "
                    f"memory, commit more often (--commit-every), or correct the handler that ends its process; {hint}"
                ) from error
            say(f"an executor or its Python worker died: resuming {resume_point(last)}")
        else:
            return


def last_commit(store: Store) -> Commit | None:
    """Returns the newest commit of a store; None if the store has no commit."""
    return Ledger.read(store).last if store.is_committed() else None


def resume_point(last: Commit | None) -> str:
    """Returns the phrase "after round R", "after run R" if `last` ended a batch of runs, or "from the beginning"."""
    if last is None:
        return "from the beginning"
    ended = f"run {last.last_run:,}" if last.is_final else f"round {last.last_round:,}"
    return f"after {ended}"
