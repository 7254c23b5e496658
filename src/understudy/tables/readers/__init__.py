"""Readers: one module per kind of file, each giving a ``Source`` of named columns. ``data/tables.py`` picks one."""
