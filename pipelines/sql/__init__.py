"""SQL over a store: queries, views, and the state of the store at the end of earlier rounds."""
