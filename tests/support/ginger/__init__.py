"""Runs of `ginger` without an engine, and single nodes of `ginger`."""
