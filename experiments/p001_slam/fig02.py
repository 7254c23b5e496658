"""Figure 2: Tables 1 to 3 as curves over the size of the labelled set; the same trainings."""

from experiments.experiment import Experiment
from experiments.p001_slam import table1, table2, table3
from experiments.p001_slam.settings import plotted

TABLES = [module.EXPERIMENT for module in (table1, table2, table3)]

EXPERIMENT = Experiment(
    name="slam_fig02",
    paper="001",
    shows="Figure 2",
    what="CIFAR-10, CIFAR-100 and CelebA, soft labels: the trainings of Tables 1 to 3, plotted",
    parts=[plotted(part, table.name) for table in TABLES for part in table.parts],
    minutes=0,
)
