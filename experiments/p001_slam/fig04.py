"""Figure 4: Tables 5 to 7 as curves over the size of the labelled set; the same trainings."""

from experiments.experiment import Experiment
from experiments.p001_slam import table5, table6, table7
from experiments.p001_slam.settings import plotted

TABLES = [module.EXPERIMENT for module in (table5, table6, table7)]

EXPERIMENT = Experiment(
    name="slam_fig04",
    paper="001",
    shows="Figure 4",
    what="CIFAR-10, CIFAR-100 and CelebA, hard labels: the trainings of Tables 5 to 7, plotted",
    parts=[plotted(part, table.name) for table in TABLES for part in table.parts],
    minutes=0,
)
