"""Whatever is written, compared and resumed: whole files, settings, finished cells, Parquet, progress, console."""
