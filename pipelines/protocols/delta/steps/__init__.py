"""The steps of a round: pure functions from DataFrames to a DataFrame, named by the terms of the report.

A parameter with the name of a relation or history table holds rows of this relation or table. ``setting`` has one row
per run, and ``inbox`` has the due messages.
"""
