# Databricks notebook source
# MAGIC %md
# MAGIC # What does δ cost, and what does it save?
# MAGIC Every δ with every number of crashes, many seeds each: all of them are runs of the same Spark jobs.
# MAGIC Parameters: `store` and `schema` as in `first_run`; `seeds`, how many runs each combination has; `batch_runs`,
# MAGIC how many runs go through the rounds together (empty: as many as fit).

# COMMAND ----------

from importlib.util import find_spec

from pipelines.notebooks.parameters import given, show

PARAMETERS = {"store": "runs/delta_study", "schema": "", "seeds": "5", "batch_runs": ""}
parameters = given(globals(), PARAMETERS)

# COMMAND ----------

result = parameters.run_or_open(
    "delta_study",
    overrides=[f"runs.seeds={{count: {parameters['seeds']}}}"],
    batch_runs=int(parameters["batch_runs"]) if parameters["batch_runs"] else None,
)
print(result.verdict)

# COMMAND ----------

# MAGIC %md
# MAGIC Means over the seeds, with their 95 % confidence intervals; those of ratios stay between 0 and 1.

# COMMAND ----------

result.sql("""
    SELECT protocol_delta, faults_0_generate_count AS crashes, measure, mean, ci_low, ci_high
    FROM result_summary
    WHERE measure IN ('delivery_ratio', 'messages_per_delivery', 'latency_rounds_p95')
    ORDER BY measure, protocol_delta, crashes
""").show(100, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC How many runs went beyond what δ promises to bear, and what was lost in them?

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
# MAGIC The same as a picture, which needs the extra `report`: a colour a δ, a point the mean with its interval.

# COMMAND ----------

if find_spec("vl_convert"):
    show(result.plot(x="faults_0_generate_count", y="delivery_ratio", colour="protocol_delta"))

# COMMAND ----------

if parameters["schema"]:
    print(result.publish(parameters["schema"]))
