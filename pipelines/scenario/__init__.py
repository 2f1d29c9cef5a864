"""Scenario files: what an experiment is, read from YAML with every error at its place."""
