"""Schedules of `delta`, and rounds for tests of single steps of `delta`."""
