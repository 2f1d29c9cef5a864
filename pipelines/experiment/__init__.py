"""Experiments: a scenario is expanded into runs, whose input tables are built and split into batches and jobs.

The manifest of a store describes its experiment.
"""
