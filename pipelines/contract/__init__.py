"""The contract between the engine and a protocol. This module imports nothing, so `protocol` loads without PySpark."""
