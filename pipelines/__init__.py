"""Roundtable: fault-tolerant publish/subscribe protocols as dataflow on Spark."""
