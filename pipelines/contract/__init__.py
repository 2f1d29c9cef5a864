"""The contract between the engine and a protocol.

This package imports nothing, so that importing `contract.protocol` does not import PySpark.
"""
