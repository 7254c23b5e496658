"""Whatever is written, compared and resumed: whole files, settings, progress, one-line errors."""
