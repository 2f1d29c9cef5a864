# Databricks notebook source
"""Runs eight protocols on the scenarios in ``conf/scenarios/compared``, and compares deliveries, orders and costs.

As a script, ``python -m pipelines.notebooks.protocols_compared [--help]`` prints tables, and writes stores, tables and
charts into a folder.

Needs the extra ``report`` (Altair).
"""

# MAGIC %md
# MAGIC # Eight protocols under the same workload
# MAGIC Each scenario runs all protocols that support its faults, with the same overlays, calls and faults.

# COMMAND ----------

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pipelines as rt
from pipelines.notebooks.parameters import read_parameters
from pipelines.notebooks.study import alt, write

SCENARIOS = (
    "no_fault", "broker_crashes", "broken_brokers", "publisher_crashes", "subscriber_crashes", "loss", "disorder",
    "partition", "churn", "cycles",
)  # fmt: skip
PROTOCOLS = ["forwarding", "delta", "epidemic", "ginger", "skipring", "repository", "flooding", "gossipsub"]

# COMMAND ----------

# MAGIC %md
# MAGIC ## The runs
# MAGIC Each scenario is run into a store. Each combination of protocol, overlay, seed and amount of faults is a run.

# COMMAND ----------


def churn(trace: str) -> str:
    """Returns a scenario override with the crashes in a file of the Failure Trace Archive; an hour is 10 rounds."""
    generator = {"kind": "crash", "nodes": "inner", "rounds": [205, 505]}
    recorded = {"path": str(Path(trace).resolve()), "hours_per_round": 0.1, "shuffled": True}
    return f"faults={json.dumps([{'generate': {**generator, 'trace': recorded}}])}"


# COMMAND ----------

# MAGIC %md
# MAGIC ## The measures
# MAGIC View `comparison` has one row for each run, with measures that have the same meaning in all protocols. Means
# MAGIC have 95 % confidence intervals, by bootstrap over the runs.

# COMMAND ----------

_ORDERS = {"source": "n_source_order_broken", "causal": "n_causal_order_broken", "total": "n_total_order_broken"}
_ASKED = ["n_asked_causal_broken", "n_asked_total_broken"]
_SAMPLES = 2000


def measures(result: rt.Result, scenario: str) -> pd.DataFrame:
    """Returns view ``comparison`` of a store with the additional columns ``faults`` and ``overlay``.

    ``faults`` is a label with the name of the scenario and its varied fault parameters, for example ``loss 5%``.
    ``overlay`` is the name of the overlay.
    """
    rows = result.to_pandas("select * from comparison order by run_id")
    chosen = rows.parameters.map(json.loads)
    return rows.assign(faults=chosen.map(lambda of: _faults(scenario, of)), overlay=chosen.map(_overlay))


def _faults(scenario: str, parameters: Mapping[str, Any]) -> str:
    amounts = [value for name, value in parameters.items() if name.startswith("faults.")]
    told = [f"{value:.0%}" if isinstance(value, float) else str(value) for value in amounts]
    return " ".join([_told(scenario), *told])


def _told(scenario: str) -> str:
    return scenario.replace("_", " ")


def _overlay(parameters: Mapping[str, Any]) -> str:
    overlay = parameters["overlay"]
    made = overlay.get("topohub") or overlay["generate"]
    return str(made["name"]).split("/")[-1] if "name" in made else f"{made['kind'].replace('_', ' ')}, {made['nodes']}"


def _mean(values: pd.Series) -> str:
    """Returns a mean with its 95 % confidence interval."""
    known = values.dropna().to_numpy(dtype=float)
    if not len(known):
        return "-"
    drawn = np.random.default_rng(0).choice(known, (_SAMPLES, len(known))).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{known.mean():.4g} [{low:.3g}, {high:.3g}]" if high > low else f"{known.mean():.4g}"


def tables(found: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Returns a table for each measure, from the concatenated results of `measures`.

    A table has a row for each label in column ``faults``, and a column for each protocol.

    Returns:
        Tables by name:

        - ``delivered``: wanted deliveries that happened, in per cent;
        - ``duplicates``: repeated deliveries, in per cent of all deliveries;
        - ``source_order``, ``causal_order``, ``total_order``: runs that break the order, in per cent;
        - ``asked_order``: runs that break an order that a publication requests, in per cent;
        - ``messages``, ``application``, ``bytes``: messages per delivery, messages with publications per delivery, and
          bytes of all messages per delivery;
        - ``held``: state rows per node at the end; ``stored``: bytes of durable state per node at the end;
        - ``p95``: the 95th percentile of latencies, in ms;
        - ``settling``: ms from the first fault to the last delivery of a publication that was issued before the last
          fault;
        - ``messages_by_overlay``: messages per delivery without faults, with a row for each overlay.
    """
    runs = found.assign(
        delivered=100 * found.wanted_ratio, duplicates=100 * found.n_duplicates / found.n_deliveries,
        messages=found.messages_per_delivery, application=found.application_per_delivery,
        bytes=found.bytes_per_delivery, held=found.held_rows_per_node, stored=found.durable_bytes_per_node,
        p95=found.latency_ms_p95, settling=found.settling_ms,
        asked_order=100.0 * (found[_ASKED].fillna(0).sum(axis=1) > 0),
        **{f"{order}_order": 100.0 * (found[column] > 0) for order, column in _ORDERS.items()},
    )  # fmt: skip
    orders = [f"{order}_order" for order in _ORDERS]
    costs = ["messages", "application", "bytes", "held", "stored"]
    names = ["delivered", "duplicates", *orders, "asked_order", *costs, "p95", "settling"]
    found_tables = {name: _by_protocol(runs, name) for name in names}
    undisturbed = runs[runs.faults == _told(SCENARIOS[0])]
    if len(undisturbed):
        found_tables["messages_by_overlay"] = _by_protocol(undisturbed, "messages", by="overlay")
    return found_tables


def _by_protocol(runs: pd.DataFrame, name: str, by: str = "faults") -> pd.DataFrame:
    cells = runs.groupby([by, "protocol"], sort=False)[name].agg(_mean).unstack("protocol")
    columns = [protocol for protocol in PROTOCOLS if protocol in cells]
    return cells.loc[runs[by].unique(), columns].fillna("-")


def markdown(table: pd.DataFrame) -> str:
    """Returns a table as Markdown."""
    head = [str(table.index.name), *table.columns]
    rows = [[str(index), *row] for index, row in zip(table.index, table.to_numpy(), strict=True)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---", *["---:"] * len(table.columns)], *rows])


# COMMAND ----------

# MAGIC %md
# MAGIC ## The charts

# COMMAND ----------

_PROTOCOL = alt.Y("protocol:N", sort=PROTOCOLS, title=None)
_COLOR = alt.Color("protocol:N", legend=None, scale=alt.Scale(domain=PROTOCOLS, scheme="tableau10"))


def _panels(found: pd.DataFrame, x: alt.X, title: str) -> Any:  # noqa: ANN401 - Altair has a type for every mark
    """Returns a chart with a panel per value of column ``faults``: ``x`` by protocol, with 95 % confidence bars."""
    base = alt.Chart(found).encode(y=_PROTOCOL, color=_COLOR)
    points = base.mark_point(filled=True, size=60).encode(x=x)
    bars = base.mark_errorbar(extent="ci").encode(x=x)
    return (bars + points).properties(width=170, height=110).facet(
        facet=alt.Facet("faults:N", sort=list(found.faults.unique()), title=None), columns=4
    ).properties(title=title)  # fmt: skip


def pictures(found: pd.DataFrame) -> dict[str, Any]:
    """Returns charts of deliveries, latencies and costs, from the concatenated results of `measures`."""
    columns = ["faults", "protocol", "wanted_ratio", "latency_ms_p95", "messages_per_delivery"]
    data = found[columns]
    share = alt.X("mean(wanted_ratio):Q", title="delivered / wanted", axis=alt.Axis(format="%", tickCount=4))
    late = alt.X("mean(latency_ms_p95):Q", title="95th percentile of latency, ms", axis=alt.Axis(tickCount=4))
    cost = alt.X("mean(messages_per_delivery):Q", title="messages per delivery", axis=alt.Axis(tickCount=4))
    return {
        "compared_delivered": _panels(data, share, "Delivered share of wanted deliveries"),
        "compared_latency": _panels(data, late, "95th percentile of the latency"),
        "compared_messages": _panels(data, cost, "Messages per delivery"),
    }


# COMMAND ----------

if __name__ == "__main__":
    parameters = read_parameters(
        globals(), {"out": "protocols_compared", "scenarios": " ".join(SCENARIOS), "seeds": "", "trace": ""}
    )
    target = Path(parameters["out"])
    asked = [f"runs.seeds={{count: {parameters['seeds']}}}"] if parameters["seeds"] else []
    measured = []
    for name in parameters["scenarios"].split():
        changed = [churn(parameters["trace"])] if name == "churn" and parameters["trace"] else []
        with parameters.run_or_open(f"compared/{name}", [*asked, *changed], str(target / name)) as finished:
            print(name, finished.verdict)
            measured.append(measures(finished, name))
    compared = pd.concat(measured, ignore_index=True)
    target.mkdir(parents=True, exist_ok=True)
    for measure, numbers in tables(compared).items():
        print(f"\n{measure}\n{numbers.to_string()}")
        (target / f"{measure}.md").write_text(f"{markdown(numbers)}\n", "utf-8")
    write(pictures(compared), target)
