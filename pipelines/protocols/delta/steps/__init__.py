"""The steps of a round: pure functions from DataFrames to a DataFrame, named by the terms of the report.

A parameter with the name of a relation or history table holds its rows. ``setting`` has one row per run, ``inbox`` the
due messages.
"""
