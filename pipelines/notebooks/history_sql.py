# Databricks notebook source
# MAGIC %md
# MAGIC # SQL over the history
# MAGIC A store keeps every message and every change of state; what happened is a question in SQL.
# MAGIC Parameter: `store`, the folder that a run left, e.g. that of `first_run`.

# COMMAND ----------

import pipelines as rt

parameters = {"store": "runs/first_run"}
if "dbutils" in globals():
    for name, default in parameters.items():
        dbutils.widgets.text(name, default)
        parameters[name] = dbutils.widgets.get(name)
result = rt.open_store(parameters["store"], spark)

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
    SELECT n.name AS crashed, f.round, m.kind, count(*) AS n_messages, count_if(m.fate = 'lost_crash') AS n_lost
    FROM fault_event f
    JOIN node n ON n.run_id = f.run_id AND n.node_id = f.node_id
    JOIN message m ON m.run_id = f.run_id AND m.sent_round < f.round AND m.due_round >= f.round
    WHERE f.kind = 'crash'
    GROUP BY n.name, f.round, m.kind
    ORDER BY f.round, m.kind
""").show()

# COMMAND ----------

# MAGIC %md
# MAGIC The same store as it was at the end of an earlier round: Delta time travel for the state of the brokers.

# COMMAND ----------

last = result.reader.last_round()
for round_ in (last // 2, last):
    result.sql(f"SELECT {round_} AS round, count(*) AS n_delivered FROM delivery", as_of_round=round_).show()
