"""Helpers that several tests and the scripts in `perf/` share."""
