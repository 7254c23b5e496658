"""What both nets of Table 1 share."""

from experiments.claims import Claim
from experiments.engines.active import Active

STRATEGIES = ("random", "confidence", "margin", "badge", "s_badge")
COLUMNS = ["Clean", "Noisy-Blank", "Noisy-Diverse", "Noisy-Class"]
EPOCHS = 50
"""A round's training; the paper trains "as BADGE does", to high training accuracy, and gives no number."""

CLAIMS = [
    Claim("Noise costs accuracy, confidence on Noisy-Blank", ["confidence@Clean"], ["confidence@Noisy-Blank"]),
    Claim("Confidence picks fewer original rows than random on Noisy-Blank",
          ["random, clean picks@Noisy-Blank"], ["confidence, clean picks@Noisy-Blank"]),
    Claim("Confidence ends below random on Noisy-Blank", ["random@Noisy-Blank"], ["confidence@Noisy-Blank"]),
    Claim("Badge picks nearly only original rows on Noisy-Blank", ["badge, clean picks@Noisy-Blank"], beyond=0.9),
    Claim("S-Badge picks nearly only original rows on Noisy-Blank", ["s_badge, clean picks@Noisy-Blank"], beyond=0.9),
    Claim("S-Badge picks more original rows than Badge on Noisy-Diverse",
          ["s_badge, clean picks@Noisy-Diverse"], ["badge, clean picks@Noisy-Diverse"]),
    Claim("S-Badge picks more original rows than Badge on Noisy-Class",
          ["s_badge, clean picks@Noisy-Class"], ["badge, clean picks@Noisy-Class"]),
    Claim("S-Badge ends above Badge on Noisy-Diverse", ["s_badge@Noisy-Diverse"], ["badge@Noisy-Diverse"]),
    Claim("Margin is above confidence on Noisy-Blank", ["margin@Noisy-Blank"], ["confidence@Noisy-Blank"]),
]  # fmt: skip


def paper(student: str) -> Active:
    return Active("svhn", student, STRATEGIES, start=2_000, batch=100, budget=5_000, epochs=EPOCHS)
