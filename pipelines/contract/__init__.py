"""The contract between the engine and a protocol; imports nothing, so `protocol` loads without PySpark."""
