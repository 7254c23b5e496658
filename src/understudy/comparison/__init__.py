"""Methods side by side over seeds: means, 95% intervals, differences paired by seed, and which to take.

    comparison = us.compare(student, gold, pool, ["slam", "weighted"], epochs=20, out="runs/compare")
    rich.print(comparison.table()); print(*comparison.sentences, sep="\\n")

    comparison = run_cells(trainings, seeds=range(10), reference="vanilla")     # functions of your own

Within a seed every method meets the same data, so differences are taken within seeds: what makes one split harder than
another cancels. Reported are the last epoch and, where there are select rows, the epoch they chose; never the best
test epoch.
"""
