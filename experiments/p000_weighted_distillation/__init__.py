"""Weighted Distillation with Unlabeled Examples: Figures 1, 2 and 4 to 16, one file each."""
