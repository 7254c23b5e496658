"""Readers: one module per kind of file, each giving a ``TableSource`` of named columns. ``io/table.py`` picks one."""
