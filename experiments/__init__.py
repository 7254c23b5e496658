"""One file per published table or claim; each runs with ``python -m experiments.<name>``."""
