"""Figure 2: Tables 1 to 3 as curves over the size of the labelled set; the same trainings."""

from experiments.experiment import Experiment, Part
from experiments.p001_slam import table1, table2, table3
from experiments.p001_slam.settings import plotted

EXPERIMENT = Experiment(
    name="slam_fig02",
    paper="001",
    shows="Figure 2",
    what="CIFAR-10, CIFAR-100 and CelebA, soft labels: the trainings of Tables 1 to 3, plotted",
    parts=[
        Part("CIFAR-10", table1.PAPER, table1.REDUCED, plotted("cifar10")),
        Part("CIFAR-100", table2.PAPER, table2.REDUCED, plotted("cifar100")),
        Part("CelebA", table3.PAPER, table3.REDUCED, plotted("celeba")),
    ],
    minutes=0,
)
