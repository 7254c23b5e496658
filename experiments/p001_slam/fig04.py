"""Figure 4: Tables 5 to 7 as curves over the size of the labelled set; the same trainings."""

from experiments.experiment import Experiment, Part
from experiments.p001_slam import table5, table6, table7
from experiments.p001_slam.settings import plotted

EXPERIMENT = Experiment(
    name="slam_fig04",
    paper="001",
    shows="Figure 4",
    what="CIFAR-10, CIFAR-100 and CelebA, hard labels: the trainings of Tables 5 to 7, plotted",
    parts=[
        Part("CIFAR-10", table5.PAPER, table5.REDUCED, plotted("cifar10")),
        Part("CIFAR-100", table6.PAPER, table6.REDUCED, plotted("cifar100")),
        Part("CelebA", table7.PAPER, table7.REDUCED, plotted("celeba")),
    ],
    minutes=0,
)
