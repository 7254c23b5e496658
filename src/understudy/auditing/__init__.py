"""``us.audit``: how good are these labels? Measured on gold before any training."""
