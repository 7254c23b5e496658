"""The page a training leaves behind: ``write_run_report`` for one run, ``write_comparison_report`` for several."""
