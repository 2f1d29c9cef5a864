# Databricks notebook source
# MAGIC %md
# MAGIC # SQL over the history
# MAGIC A store keeps every message and every change of state; what happened is a question in SQL.
# MAGIC Parameter: `store`, the folder that a run left, e.g. that of `first_run`.

# COMMAND ----------

import pipelines as rt
from pipelines.notebooks.parameters import given

PARAMETERS = {"store": "runs/first_run"}
parameters = given(globals(), PARAMETERS)
result = rt.open_store(parameters["store"], parameters.spark, parameters.engine)

# COMMAND ----------

result.sql("SHOW TABLES").show(100, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC Who carries most?

# COMMAND ----------

result.sql("SELECT name, n_sent, n_received FROM node_load ORDER BY n_sent + n_received DESC, name LIMIT 5").show()

# COMMAND ----------

# MAGIC %md
# MAGIC What was in flight when a broker crashed?

# COMMAND ----------

result.sql("""
    SELECT r.name AS crashed, r.crash_round, m.kind, count(*) AS n_messages, count_if(m.fate = 'lost_crash') AS n_lost
    FROM node_recovery r
    JOIN message m ON m.run_id = r.run_id AND m.sent_round < r.crash_round AND m.due_round >= r.crash_round
    GROUP BY r.name, r.crash_round, m.kind
    ORDER BY r.crash_round, m.kind
""").show()

# COMMAND ----------

# MAGIC %md
# MAGIC The same store as it was at the end of an earlier round: Delta time travel for the state of the brokers.

# COMMAND ----------

last = result.reader.last_round()
for round_ in (last // 2, last):
    result.sql(f"SELECT {round_} AS round, count(*) AS n_delivered FROM delivery", as_of_round=round_).show()
