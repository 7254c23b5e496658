"""Passes over rows: predictions, metrics, the teacher asked, the student exported."""
