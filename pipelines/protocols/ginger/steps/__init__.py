"""The dissemination of chapter 3 as dataflow: pure steps over the tables of all nodes of all runs."""
