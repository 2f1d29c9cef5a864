"""The contract between the engine and a protocol; nothing is imported here, so `protocol` loads without PySpark."""
