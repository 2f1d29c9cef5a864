# Databricks notebook source
"""Runs ``ginger_study.yaml``, a bank with failing brokers, and draws Figures 5.3 to 5.5 of the thesis.

As a script, ``python -m pipelines.notebooks.ginger_study [--help]`` prints tables, and writes charts into a folder.

Needs the extra ``report`` (Altair).
"""

# MAGIC %md
# MAGIC # Ginger: the cost of failures, and the effect of key items
# MAGIC Matos: *Ginger*, section 5.4. A bank has replicas at five edge brokers; children of the root fail together.

# COMMAND ----------

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

import pipelines as rt
from pipelines.notebooks.parameters import read_parameters
from pipelines.notebooks.study import alt, answers, write

SCENARIO = "ginger_study"
GUARANTEES = ["eventual", "causal", "total"]

# COMMAND ----------

# MAGIC %md
# MAGIC ## The measures
# MAGIC Durations of reconfigurations, and the mean latencies of each run, in milliseconds.

# COMMAND ----------

_PARAMETERS = """
select run_id, faults_0_generate_count as faults, workload_publications_generate_accounts as accounts from parameter
"""
QUERIES: Mapping[str, str] = {
    "reconfiguration": """
      select run_id, role, n_requests, n_requests - 1 - n_declined as n_expired, reconfiguration_ms as ms
      from reconfiguration where ended_round is not null""",
    "latency": """
      select d.run_id, p.guarantee, avg(d.latency_ms) as ms
      from delivery_detail d
      join publication p on p.run_id = d.run_id and p.source = d.source and p.source_seq = d.source_seq
      group by d.run_id, p.guarantee""",
}
"""The queries for the duration of each reconfiguration, and for the mean latency for each run and guarantee."""


def measures(result: rt.Result) -> dict[str, pd.DataFrame]:
    """Returns the results of `QUERIES`, by name; each row also has the parameters of its run."""
    return answers(result, _PARAMETERS, QUERIES)


def tables(found: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Returns the numbers in the charts: means over runs, and the number of reconfigurations."""
    asked = found["reconfiguration"].groupby(["n_requests", "n_expired"]).ms
    delivered = found["latency"].groupby(["accounts", "faults", "guarantee"]).ms.mean()
    return {
        "reconfiguration": asked.agg(["count", "mean", "min", "max"]).round(0).astype(int).reset_index(),
        "latency": delivered.unstack()[GUARANTEES].round(0).astype(int).reset_index(),
    }


# COMMAND ----------

# MAGIC %md
# MAGIC ## The charts

# COMMAND ----------

_ORDER = alt.Color("guarantee:N", title="guarantee", scale=alt.Scale(domain=GUARANTEES, scheme="tableau10"))
_LATENCY = alt.Y("mean(ms):Q", title="mean latency in ms")


def _reconfigurations(data: pd.DataFrame) -> Any:  # noqa: ANN401 - Altair has a type for every mark
    told = data.assign(ended=data.n_expired.map(lambda n: f"{n} expired" if n else "all answered"))
    return alt.Chart(told).mark_bar().encode(
        x=alt.X("n_requests:O", title="rounds of ParentRequest", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("mean(ms):Q", title="mean reconfiguration time in ms", stack=None),
        color=alt.Color("ended:N", title="requests", sort="ascending"),
    ).properties(width=280, height=220, title="Reconfiguration time (Figure 5.3)")  # fmt: skip


def _by_faults(data: pd.DataFrame) -> Any:  # noqa: ANN401 - as above
    """Draws the latencies by the number of failing brokers.

    The thesis has 100 accounts, so the chart uses the runs whose number of accounts is nearest to 100.
    """
    accounts = min(data.accounts, key=lambda n: (abs(n - 100), n))
    return alt.Chart(data[data.accounts == accounts]).mark_bar().encode(
        x=alt.X("faults:O", title="failed brokers", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("guarantee:N", sort=GUARANTEES), y=_LATENCY, color=_ORDER,
    ).properties(width=280, height=220, title=f"Message latency with {accounts} accounts (Figure 5.4)")  # fmt: skip


def _by_keys(data: pd.DataFrame) -> Any:  # noqa: ANN401 - as above
    panel = alt.Chart(data).mark_line(point=True).encode(
        x=alt.X("accounts:O", title="accounts (key items)", axis=alt.Axis(labelAngle=0)), y=_LATENCY,
        color=alt.Color("faults:O", title="failed brokers", scale=alt.Scale(scheme="viridis", reverse=True)),
    ).properties(width=190, height=220)  # fmt: skip
    return panel.facet(column=alt.Column("guarantee:N", title=None, sort=GUARANTEES)).properties(
        title="Message latency by key items and faults (Figure 5.5)"
    )


def pictures(found: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Returns Altair charts by name, from the result of `measures`."""
    return {
        "reconfiguration": _reconfigurations(found["reconfiguration"]),
        "latency_by_faults": _by_faults(found["latency"]),
        "latency_by_keys": _by_keys(found["latency"]),
    }


# COMMAND ----------

# MAGIC %md
# MAGIC ## The runs
# MAGIC Each combination of accounts, failing brokers and seed is a run. One job executes all runs.

# COMMAND ----------

if __name__ == "__main__":
    parameters = read_parameters(globals(), {"out": "ginger_study"})
    with parameters.run(SCENARIO) as finished:
        print(finished.verdict)
        measured = measures(finished)
    for numbers in tables(measured).values():
        print(numbers.to_string(index=False))
    write(pictures(measured), parameters["out"])
