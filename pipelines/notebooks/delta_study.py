# Databricks notebook source
# MAGIC %md
# MAGIC # The cost and benefit of δ
# MAGIC Each combination of δ, number of crashes and seed is a run; a Spark job executes many runs.
# MAGIC Parameters: `store` and `schema` as in `first_run`; `seeds` is the number of seeds of each combination;
# MAGIC `batch_runs` is the number of runs in a job (empty: as many as fit into memory).

# COMMAND ----------

from importlib.util import find_spec

from pipelines.notebooks.parameters import read_parameters, show

PARAMETERS = {"store": "runs/delta_study", "schema": "", "seeds": "5", "batch_runs": ""}
parameters = read_parameters(globals(), PARAMETERS)

# COMMAND ----------

result = parameters.run_or_open(
    "delta_study",
    overrides=[f"runs.seeds={{count: {parameters['seeds']}}}"],
    batch_runs=int(parameters["batch_runs"]) if parameters["batch_runs"] else None,
)
print(result.verdict)

# COMMAND ----------

# MAGIC %md
# MAGIC Means over the seeds, with 95 % confidence intervals; the interval of a ratio lies between 0 and 1.

# COMMAND ----------

result.sql("""
    SELECT protocol_delta, faults_0_generate_count AS crashes, measure, mean, ci_low, ci_high
    FROM result_summary
    WHERE measure IN ('delivery_ratio', 'messages_per_delivery', 'latency_rounds_p95')
    ORDER BY measure, protocol_delta, crashes
""").show(100, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC How many runs have more faults than δ tolerates, and how many deliveries are missing?

# COMMAND ----------

result.sql("""
    SELECT protocol_delta, faults_0_generate_count AS crashes, count_if(NOT within_bound) AS n_beyond,
      sum(n_missing) AS n_missing, sum(n_violations) AS n_violations
    FROM result
    GROUP BY protocol_delta, faults_0_generate_count
    ORDER BY protocol_delta, crashes
""").show()

# COMMAND ----------

# MAGIC %md
# MAGIC The delivery ratio as a chart, which needs the extra `report`. A point is the mean over the runs with one δ and
# MAGIC one number of crashes, with its confidence interval.

# COMMAND ----------

if find_spec("vl_convert"):
    show(result.plot(x="faults_0_generate_count", y="delivery_ratio", colour="protocol_delta"))

# COMMAND ----------

if parameters["schema"]:
    print(result.publish(parameters["schema"]))
