"""Losses between a prediction and a target distribution, one number per example.

Every loss takes ``(log_prediction, target)``, both ``(B, C)``, and returns ``(B,)``. Working on log-probabilities, not
on logits, lets the same loss score a plain softmax or a corrected prediction such as SLaM's mixture, whose entries
are at most 1 but need not sum to 1. Soft targets give the target-weighted sum of the one-label loss.

    losses.taylor(logits.log_softmax(-1), teacher_probs, degree=2).mean()
"""

from torch import Tensor

from understudy.maths.mixing import log_one_minus


def cross_entropy(log_prediction: Tensor, target: Tensor) -> Tensor:
    """−Σ_c q_c log f_c."""
    return -(target * log_prediction).sum(-1)


def taylor(log_prediction: Tensor, target: Tensor, degree: int = 2) -> Tensor:
    """Taylor cross-entropy: −log f expanded around f = 1, Σ_{i=1..t} (1 − f)^i / i (Feng et al., 2020)."""
    # −expm1 keeps 1 − f exact where f is close to 1.
    miss = -log_prediction.expm1()
    series = sum((miss**i / i for i in range(2, degree + 1)), miss)
    return (target * series).sum(-1)


def poly(log_prediction: Tensor, target: Tensor, epsilon: float = 1.0) -> Tensor:
    """Poly-1: cross-entropy + ε (1 − f) (Leng et al., 2022)."""
    return (target * (-epsilon * log_prediction.expm1() - log_prediction)).sum(-1)


def gce(log_prediction: Tensor, target: Tensor, g: float = 0.7) -> Tensor:
    """Generalised cross-entropy, (1 − f^g) / g: between cross-entropy (g → 0) and mean absolute error (g = 1)."""
    return (target * (-(g * log_prediction).expm1() / g)).sum(-1)


def truncated_gce(log_prediction: Tensor, target: Tensor, g: float = 0.7, threshold: float = 0.5) -> Tensor:
    """GCE whose value is the constant (1 − threshold^g) / g where f <= threshold: such labels stop pulling."""
    ceiling = (1 - threshold**g) / g
    per_class = (-(g * log_prediction).expm1() / g).clamp(max=ceiling)
    return (target * per_class).sum(-1)


def ups(log_prediction: Tensor, target: Tensor) -> Tensor:
    """Signed selection: Σ_{t>0} −t log f + Σ_{t<0} t log(1 − f), the logarithm not below −100 (Rizve et al., 2021).

    For a log-softmax only: 1 − f is taken as the mass of the other classes, so that it is exact where f rounds to 1.
    """
    against = log_one_minus(log_prediction).clamp(min=-100.0)
    return -(target.clamp(min=0) * log_prediction + (-target).clamp(min=0) * against).sum(-1)
