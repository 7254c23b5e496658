"""When leaving the weights out is the better estimate of one example's clean loss.

Weighted Distillation (Iliopoulos et al. 2022), Appendix D.2. With flip probability p, distortion δ and clean
loss 1, the squared errors of the unweighted and of the debiased loss of one noisy label are, in expectation,

    MSE = p (1 − δ)²,    MSEʷ = w² p (1 − p) (1 − δ)²,    w = 1 / (1 + p (δ − 1))

(equation (10), simplified), hence Proposition D.3. One reason why the deep method clips its weights at 1: the
unweighted loss can be closer only where w > 1, that is δ < 1.

    unweighted_is_closer(p, distortion)     # elementwise, bool
"""

from __future__ import annotations

from torch import Tensor


def unweighted_mse(flip: Tensor, distortion: Tensor) -> Tensor:
    """E_y (1 − ℓ(y))², in units of the squared clean loss (equation 9)."""
    return flip * (1 - distortion) ** 2


def debiased_mse(flip: Tensor, distortion: Tensor) -> Tensor:
    """E_y (1 − w ℓ(y))², in the same units (equation 10)."""
    weight = 1 / (1 + flip * (distortion - 1))
    return weight**2 * flip * (1 - flip) * (1 - distortion) ** 2


def unweighted_is_closer(flip: Tensor, distortion: Tensor) -> Tensor:
    """Proposition D.3: MSE < MSEʷ exactly where δ < 1/2 and 0 < p < (1 − 2δ) / (1 − δ)²."""
    return (distortion < 0.5) & (flip > 0) & (flip * (1 - distortion) ** 2 < 1 - 2 * distortion)
