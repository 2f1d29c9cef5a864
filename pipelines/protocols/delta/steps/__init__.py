"""The steps of a round: pure functions from DataFrames to a DataFrame, by what the report calls them."""
