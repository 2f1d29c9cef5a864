"""Experiments: expands a scenario into runs, builds their input tables, and writes the manifest of a store."""
