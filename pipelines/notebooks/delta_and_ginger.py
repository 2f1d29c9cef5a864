# Databricks notebook source
"""Runs ``delta_and_ginger.yaml`` with protocols delta and ginger under the same crashes, and compares their measures.

As a script, ``python -m pipelines.notebooks.delta_and_ginger [--help]`` prints tables, and writes stores and charts
into a folder.

Needs the extra ``report`` (Altair).
"""

# MAGIC %md
# MAGIC # Bypasses of delta and tree repairs of ginger
# MAGIC Both protocols run with the same overlay, calls and crashes, so that the rows of two runs with one seed can be
# MAGIC joined.

# COMMAND ----------

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import pipelines as rt
from pipelines.notebooks.parameters import read_parameters
from pipelines.notebooks.study import alt, answers, write

SCENARIO = "delta_and_ginger"
PROTOCOLS: Mapping[str, Sequence[str]] = {
    "delta": (),
    "ginger": ("protocol={name: ginger, root: Kansas City, timer_rounds: 30}",),
}
"""The overrides of the scenario for each protocol."""

# COMMAND ----------

# MAGIC %md
# MAGIC ## The measures
# MAGIC Durations are in milliseconds. A repair begins when a node's failure detector reports a failed neighbour. With
# MAGIC delta, it ends when the node is connected to the nodes behind that neighbour. With ginger, it ends when the
# MAGIC node is connected to a new parent that has sent it the missed messages.

# COMMAND ----------

_PARAMETERS = """
select r.run_id, r.seed, r.protocol, p.faults_0_generate_count as crashes
from run r
join parameter p on p.run_id = r.run_id
"""
_REPAIR = {
    "delta": "select run_id, name, bypass_ms as ms from bypass where ended_round is not null",
    "ginger": "select run_id, name, reconfiguration_ms as ms from reconfiguration where ended_round is not null",
}
QUERIES: Mapping[str, str] = {
    "run": """
      select run_id, within_bound, n_messages, n_deliveries, n_wanted, n_wanted_delivered as n_delivered
      from run_summary""",
    "delivery": """
      select d.run_id, d.subscriber, d.source, d.source_seq, p.guarantee, d.latency_ms as ms
      from delivery_detail d
      join publication p on p.run_id = d.run_id and p.source = d.source and p.source_seq = d.source_seq
      where d.subscriber <> d.source""",
}
"""The queries for both protocols; deliveries to the publisher itself are excluded."""
_ONE = ["protocol", "seed", "subscriber", "source", "source_seq"]


def measures(result: rt.Result) -> dict[str, pd.DataFrame]:
    """Returns the results of `QUERIES` by name, and of the protocol's query in `_REPAIR` as ``repair``."""
    [protocol] = result.reader.protocols
    return answers(result, _PARAMETERS, {**QUERIES, "repair": _REPAIR[protocol]})


def concatenated(found: Sequence[Mapping[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Returns the concatenated measures of several stores, by name.

    ``found`` contains the result of `measures` for each store. Column ``late_ms`` is the additional latency of a
    delivery, compared with the run of its protocol and seed without crashes.
    """
    every = {name: pd.concat([of_store[name] for of_store in found], ignore_index=True) for name in found[0]}
    calm = every["delivery"].query("crashes == 0")[[*_ONE, "ms"]].rename(columns={"ms": "calm_ms"})
    delivery = every["delivery"].merge(calm, on=_ONE, how="left")
    return {**every, "delivery": delivery.assign(late_ms=delivery.ms - delivery.calm_ms)}


def tables(found: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Returns two tables: measures by protocol and crashes, and latencies by protocol, crashes and guarantee."""
    by = ["protocol", "crashes"]
    run, delivery, repair = (found[name].groupby(by) for name in ("run", "delivery", "repair"))
    totals = run[["n_delivered", "n_wanted", "n_messages", "n_deliveries"]].sum()
    whole = pd.DataFrame({
        "runs": run.size(), "beyond": run.size() - run.within_bound.sum(),
        "delivered": (totals.n_delivered / totals.n_wanted).map("{:.1%}".format),
        "messages/delivery": (totals.n_messages / totals.n_deliveries).round(1),
        "repairs": repair.size(), "repair_mean": repair.ms.mean(), "repair_max": repair.ms.max(),
        "late_mean": delivery.late_ms.mean(), "late_max": delivery.late_ms.max(),
    })  # fmt: skip
    latency = found["delivery"].groupby([*by, "guarantee"]).ms
    spread = pd.DataFrame({"n": latency.size(), "median": latency.median(), "p95": latency.quantile(0.95)})
    spread["max"] = latency.max()
    return {"protocols": whole.round(1).reset_index(), "latency": spread.round(0).astype(int).reset_index()}


# COMMAND ----------

# MAGIC %md
# MAGIC ## The charts

# COMMAND ----------

_GUARANTEES = ["eventual", "causal", "total"]


def pictures(found: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Returns chart ``delta_and_ginger`` by its name: latencies by number of crashes, guarantee and protocol.

    ``found`` is the result of `concatenated`.
    """
    latency = found["delivery"].groupby(["protocol", "crashes", "guarantee"]).ms
    rows = latency.agg(["median", lambda ms: ms.quantile(0.95)]).set_axis(["median", "p95"], axis=1).reset_index()
    base = alt.Chart(rows).encode(
        x=alt.X("crashes:O", title="crashed brokers", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("guarantee:N", sort=_GUARANTEES),
        color=alt.Color("guarantee:N", title="guarantee", scale=alt.Scale(domain=_GUARANTEES, scheme="tableau10")),
    )
    bar = base.mark_bar().encode(y=alt.Y("median:Q", title="latency in ms: median (bar), 95th percentile (tick)"))
    tick = base.mark_tick(thickness=2, color="black").encode(y="p95:Q", color=alt.value("black"))
    panel = (bar + tick).properties(width=220, height=220).facet(column=alt.Column("protocol:N", title=None))
    return {"delta_and_ginger": panel.properties(title="Latency under the same crashes")}


# COMMAND ----------

# MAGIC %md
# MAGIC ## The runs
# MAGIC A run is a combination of number of crashes and seed. One job executes all runs of a protocol.

# COMMAND ----------

if __name__ == "__main__":
    parameters = read_parameters(globals(), {"out": "delta_and_ginger"})
    target = Path(parameters["out"])
    measured = []
    for name in PROTOCOLS:
        with parameters.run(SCENARIO, PROTOCOLS[name], store=target / name) as finished:
            print(name, finished.verdict)
            measured.append(measures(finished))
    compared = concatenated(measured)
    for numbers in tables(compared).values():
        print(numbers.to_string(index=False))
    write(pictures(compared), target)
