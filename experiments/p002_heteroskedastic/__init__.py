"""Catastrophic Failures of Neural Active Learning on Heteroskedastic Distributions: Table 1, a file for each net."""
