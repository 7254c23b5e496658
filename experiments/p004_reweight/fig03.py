"""Figure 3: which rows get a weight, in a mixed batch and among rows of one class (BackgroundFlip, 40%)."""

from dataclasses import replace

from experiments.claims import Claim
from experiments.engines.weights import MIXED, ONE_CLASS, ExampleWeights
from experiments.experiment import Experiment, Part
from experiments.needs import memorised
from experiments.p004_reweight.settings import BACKGROUNDS, LONG, RESNET, RESNET_TRAINING

MEMORISED = memorised("unseen rows")
CLEAN, FLIPPED = "clean rows with a weight", "flipped rows with a weight"

EXPERIMENT = Experiment(
    name="reweight_fig03",
    paper="004",
    shows="Figure 3",
    what="the weights of unseen rows halfway through training: flipped rows should get none",
    parts=[
        Part(
            "CIFAR-10",
            ExampleWeights("cifar10", RESNET, 0.4, 10, replace(RESNET_TRAINING, steps=40_000, schedule="constant"),
                           backgrounds=BACKGROUNDS["cifar10"], seeds=5),
            ExampleWeights("fashion_mnist", "mlp:256,256", 0.4, 10, replace(LONG, epochs=25, schedule="constant"),
                           rows=2_000, watched=1_000, backgrounds=BACKGROUNDS["cifar10"]),
            # Histograms without figures: that many weights of flipped rows vanish is read as 30 points at least.
            [
                Claim("In a mixed batch clean rows get weight far more often than flipped ones",
                      [f"{CLEAN}, {MIXED}"], [f"{FLIPPED}, {MIXED}"], beyond=0.3, needs=[MEMORISED]),
                Claim("Among rows of one class clean rows get weight far more often than flipped ones",
                      [f"{CLEAN}, {ONE_CLASS}"], [f"{FLIPPED}, {ONE_CLASS}"], beyond=0.3, needs=[MEMORISED]),
            ],
        )
    ],
    minutes=0.4,
    remarks=["What plain training memorises is measured after twice as many epochs, the whole of a training."],
)  # fmt: skip
