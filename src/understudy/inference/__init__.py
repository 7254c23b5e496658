"""Passes over rows: predictions, metrics, the teacher's labels, the exported student."""
