"""Catastrophic Failures of Neural Active Learning on Heteroskedastic Distributions: Table 1, Figure 1, Appendix A."""
