"""Readers: one module per kind of file, each giving a ``Source`` of named columns. ``tables/table.py`` picks one."""
