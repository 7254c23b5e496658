"""Figure 1: students of a teacher stopped after 40 to 200 epochs.

The appendix gives the student's layers but not how teacher, student and distillation were trained: the usual recipe of
wide ResNets, and temperature 1. The teacher is one training that is stopped, not one for each length.
"""

from experiments.claims import Claim
from experiments.engines.teacher_epochs import HARD, TeacherEpochs
from experiments.experiment import Experiment, Part
from experiments.sweep import Training

RECIPE = Training(
    epochs=200, lr=0.1, optimizer="sgd", weight_decay=5e-4, schedule="cosine", augment=("flip", "pad_crop")
)
FULL = TeacherEpochs("cifar100", "wide_resnet", "cnn5", (40, 80, 120, 160, 200), RECIPE, RECIPE)
LONG = Training(epochs=60, batch_size=100)
BETTER = "A teacher stopped early has a better student than one trained to the end"

EXPERIMENT = Experiment(
    name="air_fig01",
    paper="003",
    shows="Figure 1",
    what="WRN-28 teachers trained for 40 to 200 epochs on CIFAR-100, and the accuracy of a 5-layer student of each",
    parts=[
        Part(
            "Clean labels",
            FULL,
            TeacherEpochs("fashion_mnist", "mlp:256,256", "mlp:64", (2, 10, 60), LONG,
                          Training(epochs=30, schedule="cosine"), rows=2_000, test_rows=3_000),
            [
                Claim(BETTER, ["Student@10 epochs"], ["Student@60 epochs"], delta=1),
                Claim("The teacher trained to the end is the better classifier itself",
                      ["Teacher@60 epochs"], ["Teacher@10 epochs"], delta=1),
                Claim("A teacher stopped too early has a worse student", ["Student@10 epochs"], ["Student@2 epochs"],
                      delta=1),
            ],
        ),
        Part(
            "40% of the labels redrawn",
            FULL,
            TeacherEpochs("fashion_mnist", "mlp:512,512", "mlp:256,256", (5, 60), LONG,
                          Training(epochs=60, batch_size=100, schedule="cosine"), noise=0.4, rows=2_000,
                          test_rows=3_000),
            [
                Claim(BETTER, ["Student@5 epochs"], ["Student@60 epochs"], delta=1),
                Claim("The student of the early-stopped teacher is better than one of the labels themselves",
                      ["Student@5 epochs"], [f"{HARD}@60 epochs"], delta=1),
                Claim("A teacher trained to the end gives no better student than the labels do: it holds no dark "
                      "knowledge", [f"{HARD}@60 epochs"], ["Student@60 epochs"], delta=2),
            ],
        ),
    ],
    minutes=2.2,
    remarks=[
        "The figure prints no numbers; differences of one point count as none.",
        "The paper's labels are clean. Clean labels of an easy set leave a small net little to overfit, so the second "
        "part gives the teacher something that it should not learn: the paper's account of why stopping early "
        "helps.",
    ],
)  # fmt: skip
