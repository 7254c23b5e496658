"""Weighted Distillation with Unlabeled Examples: Figures 1 to 16, one file each."""
