"""SLaM: Tables 1 to 8 and Figures 1 to 8, one file each."""
