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

# MAGIC %md
# MAGIC The store keeps every message and every change of state; what happened is a question in SQL.

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
# MAGIC The store at the end of an earlier round: Delta time travel for the state of the brokers.

# COMMAND ----------

last = result.reader.last_round()
for round_ in (last // 2, last):
    result.sql(f"SELECT {round_} AS round, count(*) AS n_delivered FROM delivery", as_of_round=round_).show()

# COMMAND ----------

if parameters["schema"]:
    print(result.publish(parameters["schema"]))
