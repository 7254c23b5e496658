"""Figure 1: students of a teacher stopped after 40 to 200 epochs.

The appendix gives the student's layers but not how teacher, student and distillation were trained: the usual recipe of
wide ResNets, and temperature 1.
"""

from experiments.claims import Claim
from experiments.engines.teacher_epochs import TeacherEpochs
from experiments.experiment import Experiment, Part
from experiments.sweep import Training

RECIPE = Training(
    epochs=200, lr=0.1, optimizer="sgd", weight_decay=5e-4, schedule="cosine", augment=("flip", "pad_crop")
)

EXPERIMENT = Experiment(
    name="air_fig01",
    paper="003",
    shows="Figure 1",
    what="WRN-28 teachers trained for 40 to 200 epochs on CIFAR-100, and the accuracy of a 5-layer student of each",
    parts=[
        Part(
            "Early-stopped teachers",
            TeacherEpochs("cifar100", "wide_resnet", "cnn5", (40, 80, 120, 160, 200), RECIPE, RECIPE),
            TeacherEpochs("fashion_mnist", "mlp:512,512", "mlp:64", (2, 5, 15, 60), Training(epochs=60),
                          Training(epochs=30, schedule="cosine"), rows=3_000, test_rows=3_000, seeds=5),
            [
                Claim("A teacher stopped early has a better student than one trained to the end",
                      ["Student@15 epochs"], ["Student@60 epochs"]),
                Claim("The teacher trained to the end is the better classifier itself",
                      ["Teacher@60 epochs"], ["Teacher@15 epochs"]),
                Claim("A teacher stopped too early has a worse student", ["Student@15 epochs"], ["Student@2 epochs"]),
            ],
        )
    ],
    minutes=2,
)  # fmt: skip
