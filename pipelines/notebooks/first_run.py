# Databricks notebook source
# MAGIC %md
# MAGIC # A first run
# MAGIC A broker crashes in the middle of a small overlay and recovers; the protocol `delta` bypasses the broker.
# MAGIC Parameters: `store` is a new or empty folder (on Databricks in a volume), or a store, which is opened. If
# MAGIC `schema` (`catalog.schema`) is set, the tables are published to this schema.

# COMMAND ----------

from pipelines.notebooks.parameters import read_parameters

PARAMETERS = {"store": "runs/first_run", "schema": ""}
parameters = read_parameters(globals(), PARAMETERS)

# COMMAND ----------

# MAGIC %md
# MAGIC Spark jobs in the session of this notebook execute the run. The verdict is `valid` if all guarantees hold.

# COMMAND ----------

result = parameters.run_or_open("single_crash")
print(result.verdict)

# COMMAND ----------

result.sql("SELECT verdict, within_bound, n_publications, delivery_ratio, n_messages FROM result").show()
result.sql("SELECT name, crash_round, recovery_round, operational_round FROM node_recovery").show()

# COMMAND ----------

# MAGIC %md
# MAGIC Why did S1 receive the third publication late?

# COMMAND ----------

print(result.why(run_id=0, subscriber="S1", source="P1", seq=3))

# COMMAND ----------

# MAGIC %md
# MAGIC The store contains tables of all messages, deliveries and faults, and of the states at commits, for SQL queries.

# COMMAND ----------

result.sql("SHOW TABLES").show(100, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC Which nodes send and receive the most messages?

# COMMAND ----------

result.sql("SELECT name, n_sent, n_received FROM node_load ORDER BY n_sent + n_received DESC, name LIMIT 5").show()

# COMMAND ----------

# MAGIC %md
# MAGIC Which messages were in flight when a broker crashed?

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
# MAGIC `as_of_round` reads the history up to the end of a round: how many deliveries are in it?

# COMMAND ----------

last = result.reader.last_round()
for round_ in (last // 2, last):
    result.sql(f"SELECT {round_} AS round, count(*) AS n_delivered FROM delivery", as_of_round=round_).show()

# COMMAND ----------

if parameters["schema"]:
    print(result.publish(parameters["schema"]))
