"""The audits: guarantees checked from the history alone, each a query that gives the violating rows."""
