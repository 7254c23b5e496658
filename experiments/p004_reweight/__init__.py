"""Learning to Reweight Examples for Robust Deep Learning: Figures 2 to 7, Tables 1 and 2, one file each."""
