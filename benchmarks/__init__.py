"""Speed and memory beside named peers, as ratios within one run: ``make bench``."""
