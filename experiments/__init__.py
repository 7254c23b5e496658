"""The papers' tables and figures, one file each in the folders p000 … p004 (``understudy reproduce``); and longer runs
on the data at hand, one file each here (``python -m experiments.<name>``). ``docs/reproduce.md`` explains.
"""
