"""Studies in Databricks source format: each file is a notebook, a script, and a module."""
