"""`ds-spark export`: sealed messages as Parquet, see docs/spark.md."""
