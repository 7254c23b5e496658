"""Figure 3: the tables of Figures 7 and 10 as curves over the size of the labelled set; the same trainings."""

from dataclasses import replace

from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation import fig07, fig10


def _again(part: Part, name: str) -> Part:
    claims = [replace(claim, same_as=name) for claim in part.judged()]
    return Part(part.title, part.full, part.reduced, claims)


EXPERIMENT = Experiment(
    name="weighted_fig03",
    paper="000",
    shows="Figure 3",
    what="weighting with VID and with fidelity weights: the trainings of Figures 7 and 10, plotted",
    parts=[_again(part, made.name) for made in (fig07.EXPERIMENT, fig10.EXPERIMENT) for part in made.parts],
    minutes=0,
)
