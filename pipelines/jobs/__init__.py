"""Scripts for ``spark-submit``."""
