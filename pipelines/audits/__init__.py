"""Audits, which check the guarantees of protocols against the stored history.

An audit is a query that returns one row for each violation.
"""
