"""Readers: one module per kind of file, each giving a ``Source`` of named columns. ``io/table.py`` picks one."""
