"""Which examples to label next: one file per strategy, arrays in, row numbers out."""
