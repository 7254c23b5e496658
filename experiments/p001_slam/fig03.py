"""Figure 3: Table 4 as curves over the size of the labelled set; the same trainings."""

from experiments.experiment import Experiment
from experiments.p001_slam import table4
from experiments.p001_slam.settings import plotted

TABLES = [module.EXPERIMENT for module in (table4,)]

EXPERIMENT = Experiment(
    name="slam_fig03",
    paper="001",
    shows="Figure 3",
    what="ImageNet, soft labels: the trainings of Table 4, plotted",
    parts=[plotted(part, table.name) for table in TABLES for part in table.parts],
    minutes=0,
)
