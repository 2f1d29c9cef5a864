# Databricks notebook source
"""Runs ``skip_ring_study.yaml`` and draws the convergence time of skip rings by the number of subscribers.

As a script, ``python -m pipelines.notebooks.skipring_study [--help]`` writes the charts into a folder.

Needs the extra ``report`` (Altair).
"""

# MAGIC %md
# MAGIC # The skip ring: convergence from any state
# MAGIC Feldmann, Kolb, Scheideler, Strothmann: *Self-Stabilizing Supervised Publish-Subscribe Systems*.

# COMMAND ----------

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

import pipelines as rt
from pipelines.notebooks.parameters import read_parameters
from pipelines.notebooks.study import alt, answers, write

SCENARIO = "skip_ring_study"

# COMMAND ----------

# MAGIC %md
# MAGIC ## The measures
# MAGIC Each measure is a query over the views of the store. An interval is the time between two consecutive Timeouts of
# MAGIC a node.

# COMMAND ----------

_PARAMETERS = """
select run_id, seed, from_json(parameters, 'map<string,string>')['protocol.start'] as start,
  cast(from_json(parameters, 'map<string,string>')['overlay.nodes.count'] as bigint) as n,
  cast(from_json(parameters, 'map<string,string>')['protocol.timeout_interval'] as bigint) as interval_rounds
from run
"""
QUERIES: Mapping[str, str] = {
    "convergence": "select run_id, explicit_round, clean_round, problem from convergence where is_last",
    "progress": """
      select run_id, round, n_wrong_labels / n_subscribers as wrong_share, n_recorded / n_subscribers as recorded_share
      from convergence_round where n_subscribers > 0""",
    "supervisor": """
      select l.run_id, l.kind, l.n_messages, c.last_round
      from (select run_id, kind, sum(n_messages) as n_messages from supervisor_load group by run_id, kind) l
      join (select run_id, max(due_round) as last_round from sent_message where fate <> 'in_flight' group by run_id) c
        on c.run_id = l.run_id""",
}
"""The queries behind the charts; each result has column ``run_id``."""


def measures(result: rt.Result) -> dict[str, pd.DataFrame]:
    """Returns the results of `QUERIES`, by name.

    Each row also has the initial state, the number of subscribers and the Timeout interval of its run.
    """
    return answers(result, _PARAMETERS, QUERIES)


def summary(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Returns the convergence times, in Timeout intervals, for each initial state and number of subscribers.

    Returns:
        One row for each initial state ``start`` and number ``n`` of subscribers: ``n_runs``, the number of runs;
        ``undecided_share``, the share of runs that did not converge; ``median``, ``p95`` and ``most`` (the maximum) of
        the convergence time.
    """
    data = found["convergence"]
    clean = (data.clean_round / data.interval_rounds).groupby([data.start, data.n])
    undecided = data.clean_round.isna().groupby([data.start, data.n]).mean()
    numbers = {"n_runs": clean.size(), "undecided_share": undecided, "median": clean.median()}
    return pd.DataFrame({**numbers, "p95": clean.quantile(0.95), "most": clean.max()}).reset_index()


# COMMAND ----------

# MAGIC %md
# MAGIC ## The charts

# COMMAND ----------

_START = alt.Color("start:N", title="initial state")
_POINTS = 60


def _sampled(progress: pd.DataFrame) -> pd.DataFrame:
    """Samples ``progress`` at `_POINTS` + 1 times; for each run and time, returns the last row up to this time."""
    last = int((progress["round"] / progress.interval_rounds).max()) + 1
    points = pd.DataFrame({"interval": [last * number / _POINTS for number in range(_POINTS + 1)]})
    timed = progress.assign(interval=progress["round"] / progress.interval_rounds)
    of_runs = [
        pd.merge_asof(points, of.sort_values("interval"), on="interval").assign(start=of.start.iloc[0], n=of.n.iloc[0])
        for _, of in timed.groupby("run_id")
    ]
    return pd.concat(of_runs).dropna(subset=["wrong_share"])


def pictures(found: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Returns Altair charts by name, from the result of `measures`."""
    healed = found["convergence"].dropna(subset=["clean_round"])
    healed = healed.assign(intervals=healed.clean_round / healed.interval_rounds)
    n = alt.X("n:O", title="subscribers")
    boxes = alt.Chart(healed).mark_boxplot(extent="min-max").encode(
        x=n, y=alt.Y("intervals:Q", title="intervals until the ring is legitimate"), color=_START,
        column=alt.Column("start:N", title=None),
    ).properties(width=170, height=240, title="Convergence time")  # fmt: skip
    shares = _sampled(found["progress"])
    over_time = alt.Chart(shares).mark_line().encode(
        x=alt.X("interval:Q", title="intervals since the start"),
        y=alt.Y("mean(wrong_share):Q", title="subscribers with a wrong label", axis=alt.Axis(format="%")),
        color=_START, column=alt.Column("n:O", title="subscribers"),
    ).properties(width=170, height=200, title="Wrong labels over time")  # fmt: skip
    load = found["supervisor"]
    load = load.assign(per_interval=load.n_messages * load.interval_rounds / load.last_round)
    bars = alt.Chart(load).mark_bar().encode(
        x=n, y=alt.Y("sum(mean):Q", title="supervisor messages per interval"),
        color=alt.Color("kind:N", title="kind"), column=alt.Column("start:N", title=None),
    ).transform_aggregate(
        mean="mean(per_interval)", groupby=["start", "n", "kind"]
    ).properties(width=170, height=200, title="Load of the supervisor during convergence")  # fmt: skip
    return {"healing": boxes, "wrong_labels": over_time, "supervisor": bars}


# COMMAND ----------

# MAGIC %md
# MAGIC ## The runs
# MAGIC Each combination of initial state, number of subscribers and seed is a run. One job executes all runs.

# COMMAND ----------

if __name__ == "__main__":
    parameters = read_parameters(globals(), {"out": "skipring_study"})
    with parameters.run(SCENARIO) as finished:
        measured = measures(finished)
    print(summary(measured).to_string(index=False))
    write(pictures(measured), parameters["out"])
