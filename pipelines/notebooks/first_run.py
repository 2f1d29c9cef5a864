# Databricks notebook source
# MAGIC %md
# MAGIC # A first run
# MAGIC A broker crashes in the middle of a small overlay and recovers; the protocol δ goes around it.
# MAGIC Parameters: `store`, a folder that is new or empty (on Databricks in a volume), and `schema` (`catalog.schema`),
# MAGIC where tables are published if it is given.

# COMMAND ----------

import pipelines as rt
from pipelines.files import installed_data

parameters = {"store": "runs/first_run", "schema": ""}
if "dbutils" in globals():
    for name, default in parameters.items():
        dbutils.widgets.text(name, default)
        parameters[name] = dbutils.widgets.get(name)

# COMMAND ----------

# MAGIC %md
# MAGIC Every round of the run is a Spark job on this notebook's session. The verdict says whether all guarantees hold.

# COMMAND ----------

result = rt.run(installed_data() / "conf/scenarios/single_crash.yaml", spark=spark, store=parameters["store"])
print(result.verdict)

# COMMAND ----------

result.sql("SELECT * FROM result").show()
result.sql("SELECT name, crash_round, recovery_round, operational_round FROM node_recovery").show()

# COMMAND ----------

# MAGIC %md
# MAGIC Why did S1 get the third publication so late?

# COMMAND ----------

print(result.why(run=0, subscriber="S1", source="P1", seq=3))

# COMMAND ----------

if parameters["schema"]:
    print(result.publish(parameters["schema"]))
