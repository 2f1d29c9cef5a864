"""The contract between the engine and a protocol; nothing is imported here, so `spec` loads without PySpark."""
