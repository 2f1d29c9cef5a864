# Databricks notebook source
# MAGIC %md
# MAGIC # A first run
# MAGIC A broker crashes in the middle of a small overlay and recovers; the protocol δ goes around it.
# MAGIC Parameters: `store`, a folder that is new or empty (on Databricks in a volume; a store of an earlier run is
# MAGIC opened), and `schema` (`catalog.schema`),
# MAGIC where tables are published if it is given.

# COMMAND ----------

from pipelines.notebooks.parameters import given

PARAMETERS = {"store": "runs/first_run", "schema": ""}
parameters = given(globals(), PARAMETERS)

# COMMAND ----------

# MAGIC %md
# MAGIC Every round of the run is a Spark job on this notebook's session. The verdict says whether all guarantees hold.

# COMMAND ----------

result = parameters.run_or_open("single_crash")
print(result.verdict)

# COMMAND ----------

result.sql("SELECT * FROM result").show()
result.sql("SELECT name, crash_round, recovery_round, operational_round FROM node_recovery").show()

# COMMAND ----------

# MAGIC %md
# MAGIC Why did S1 get the third publication so late?

# COMMAND ----------

print(result.why(run_id=0, subscriber="S1", source="P1", seq=3))

# COMMAND ----------

if parameters["schema"]:
    print(result.publish(parameters["schema"]))
