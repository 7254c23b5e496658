"""Distillation ≈ Early Stopping?: Figures 1, 2, 4 and 5, and Table 1, one file each."""
