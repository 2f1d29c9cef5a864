"""Scenario files: the models of their parts, and the reader, which reports every error with its position."""
