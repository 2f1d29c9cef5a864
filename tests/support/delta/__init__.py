"""Schedules of `delta`, and rounds of it for single steps."""
