"""Rows that sets have in common and should not."""
