# Databricks notebook source
"""Runs ``epidemic_loss.yaml`` and draws delivery and cost of the recovery strategies of ``epidemic`` on lossy links.

As a script, ``python -m pipelines.notebooks.epidemic_study [--help]`` writes the charts into a folder.

Needs the extra ``report`` (Altair).
"""

# MAGIC %md
# MAGIC # Epidemic recovery: delivery and cost
# MAGIC Costa, Migliavacca, Picco, Cugola: *Introducing Reliability in Content-Based Publish-Subscribe through Epidemic
# MAGIC Algorithms*, section 5.

# COMMAND ----------

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

import pipelines as rt
from pipelines.notebooks.parameters import read_parameters
from pipelines.notebooks.study import alt, answers, write

SCENARIO = "epidemic_loss"
STRATEGIES = ["none", "push", "subscriber_pull", "publisher_pull", "combined_pull", "push_pull"]

# COMMAND ----------

# MAGIC %md
# MAGIC ## The measures
# MAGIC Each query over the views of the store returns rows for each run, with the parameters of the run.

# COMMAND ----------

_PARAMETERS = """
select run_id, seed, from_json(parameters, 'map<string,string>')['protocol.recovery'] as strategy,
  cast(from_json(parameters, 'map<string,string>')['protocol.buffer'] as bigint) as buffer,
  cast(from_json(parameters, 'map<string,string>')['faults.0.rate'] as double) as loss_rate
from run
"""
QUERIES: Mapping[str, str] = {
    "delivery": """
      select run_id, sum(n_delivered) / sum(n_wanted) as ratio
      from delivery_over_time group by run_id""",
    "over_time": "select run_id, publication_round, n_wanted, n_delivered from delivery_over_time",
    "overhead": """
      select run_id, inline(array(
        named_struct('what', 'gossip and requests', 'per_event', gossip_per_event),
        named_struct('what', 'retransmissions', 'per_event', retransmissions_per_event)))
      from recovery_overhead""",
    "latency": "select run_id, latency_ms from recovery_latency",
    "hits": "select run_id, sum(n_found) / sum(n_asked) as hit_rate from cache_hit group by run_id",
}
"""The queries behind the charts; each result has column ``run_id``."""


def measures(result: rt.Result) -> dict[str, pd.DataFrame]:
    """Returns the results of `QUERIES`, by name; each row also has strategy, buffer size and loss rate of its run."""
    return answers(result, _PARAMETERS, QUERIES)


# COMMAND ----------

# MAGIC %md
# MAGIC ## The charts

# COMMAND ----------

_SCALE = alt.Scale(domain=STRATEGIES, scheme="tableau10")
_COLOR = alt.Color("strategy:N", title="recovery", scale=_SCALE)
_LOSS = alt.X("loss_rate:Q", title="loss rate of links", axis=alt.Axis(format="%"))


def _curve(data: pd.DataFrame, y: alt.Y, title: str) -> Any:  # noqa: ANN401 - Altair has a type for every mark
    """Draws a panel for each buffer size: ``y`` against the loss rate, with a line for each strategy."""
    panel = alt.Chart(data).mark_line(point=True).encode(x=_LOSS, y=y, color=_COLOR)
    return panel.properties(width=220, height=200).facet(
        column=alt.Column("buffer:O", title="buffer size in events")
    ).properties(title=title)  # fmt: skip


def _over_time(data: pd.DataFrame) -> Any:  # noqa: ANN401 - as above
    """Draws the moving average of the delivery ratio over time, for the runs with the largest loss rate and buffer."""
    worst = data[(data.loss_rate == data.loss_rate.max()) & (data.buffer == data.buffer.max())]
    summed = worst.groupby(["strategy", "publication_round"], as_index=False)[["n_wanted", "n_delivered"]].sum()
    rolled = summed.groupby("strategy")[["n_wanted", "n_delivered"]].rolling(7, min_periods=1, center=True).sum()
    summed["ratio"] = (rolled.n_delivered / rolled.n_wanted).to_numpy()
    return alt.Chart(summed).mark_line().encode(
        x=alt.X("publication_round:Q", title="round of publication (moving average over 7 points)"),
        y=alt.Y("ratio:Q", title="delivered / wanted", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False)),
        color=_COLOR,
    ).properties(
        width=560, height=240, title=f"Delivery over time: loss rate {worst.loss_rate.max():.0%}, the largest buffer"
    )  # fmt: skip


def _latencies(data: pd.DataFrame) -> Any:  # noqa: ANN401 - as above
    return alt.Chart(data).mark_boxplot(extent="min-max").encode(
        x=alt.X("strategy:N", sort=STRATEGIES, title=None, axis=alt.Axis(labelAngle=-30)),
        y=alt.Y("latency_ms:Q", title="ms from publication to recovery"),
        color=alt.Color("strategy:N", scale=_SCALE, legend=None),
        column=alt.Column("buffer:O", title="buffer size in events"),
    ).properties(width=180, height=220, title="Recovery latency")  # fmt: skip


def pictures(found: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Returns Altair charts by name, from the result of `measures`."""
    share = alt.Y("mean(ratio):Q", title="delivered / wanted", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False))
    hits = alt.Y("mean(hit_rate):Q", title="found / requested", axis=alt.Axis(format="%"))
    charts = {
        "delivery": _curve(found["delivery"], share, "Delivered share of wanted deliveries"),
        "delivery_over_time": _over_time(found["over_time"]),
        "recovery_latency": _latencies(found["latency"]),
        "cache_hits": _curve(found["hits"], hits, "Hit rate of event caches"),
    }
    for what, data in found["overhead"].groupby("what"):
        cost = alt.Y("mean(per_event):Q", title="messages per event message")
        charts[f"overhead_{str(what).split()[0]}"] = _curve(data, cost, f"Overhead: {what}")
    return charts


# COMMAND ----------

# MAGIC %md
# MAGIC ## The runs
# MAGIC Each combination of strategy, loss rate, buffer size and seed is a run. One job executes all runs.

# COMMAND ----------

if __name__ == "__main__":
    parameters = read_parameters(globals(), {"out": "epidemic_study"})
    with parameters.run(SCENARIO) as finished:
        drawn = pictures(measures(finished))
    write(drawn, parameters["out"])
