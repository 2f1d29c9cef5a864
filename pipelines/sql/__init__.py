"""SQL over a store: queries, views, and the tables of earlier rounds."""
