"""The contract between the engine and a protocol.

The package itself imports no module, so that importing `contract.protocol` does not import PySpark.
"""
