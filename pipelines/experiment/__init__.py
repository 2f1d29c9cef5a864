"""Expands a scenario into runs, builds their input tables, and partitions the runs into batches and jobs.

The manifest of a store records its scenario and options.
"""
