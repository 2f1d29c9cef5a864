"""Notebooks in Databricks source format; each file is also a script and a module."""
