"""What the papers' tables are made of: each engine is a setting that can measure a column under a seed."""
