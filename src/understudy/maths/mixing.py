"""Links: the student's prediction, rewritten as a prediction of the noisy labeller's answer, in log space.

SLaM (Kontonis et al., NeurIPS 2023, Equation 1) mixes the prediction f with the labeller's own favourites,

    mix(f) = α f + (1 − α) top(s; k) ∗ (1 − f)          [second term divided by k − 1 when normalised]

Written naively this overflows: log(α·softmax + …) is infinite from a logit gap of about 100, and the textbook repair
(log1mexp, then logaddexp) has NaN gradients from a gap of 20 in float32. The form used here is finite up to ±1e4.
"""

import torch
from torch import Tensor

# A label the mixture gives no chance at all (α = 0 outside the top k) would cost infinity; it costs about 87 nats.
_SMALLEST = torch.finfo(torch.float32).tiny


def best_class(scores: Tensor) -> Tensor:
    """1 for the class of the largest score, 0 for the others, ``(…, C)``."""
    return torch.zeros_like(scores).scatter_(-1, scores.argmax(-1, keepdim=True), 1.0)


def top_mask(teacher: Tensor, k: Tensor) -> Tensor:
    """0/1 indicator of each row's k largest entries, ``(B, C)``, ``(B,) -> (B, C)`` bool. Ties: lower class first."""
    order = teacher.argsort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(teacher.shape[-1], device=teacher.device)
    return torch.empty_like(order, dtype=torch.bool).scatter_(-1, order, ranks < k.unsqueeze(-1))


def log_one_minus(logits: Tensor) -> Tensor:
    """log(1 − f) for f = softmax(logits), exact also where f rounds to 1."""
    log_f = logits.log_softmax(-1)
    # Only the largest entry can exceed ½; for it, 1 − f is the mass of all the others. Each sum is taken relative to
    # its own maximum: at a gap of 1e4 float32 keeps 3 digits after the point, too few for the gradient's softmax.
    best = log_f.argmax(-1, keepdim=True)
    rest = logits.scatter(-1, best, -torch.inf)
    peak, runner_up = logits.detach().amax(-1, keepdim=True), rest.detach().amax(-1, keepdim=True)
    mass = (logits - peak).logsumexp(-1, keepdim=True)
    others = (rest - runner_up).logsumexp(-1, keepdim=True) - mass + (runner_up - peak)
    # The clamp bounds the branch that is not taken, whose gradient would otherwise be NaN.
    small = torch.log1p(-log_f.exp().clamp(max=0.75))
    is_best = torch.zeros_like(log_f, dtype=torch.bool).scatter_(-1, best, True)
    return torch.where(is_best, others, small)


def slam_mix(logits: Tensor, alpha: Tensor, top: Tensor, *, normalise: bool = False) -> Tensor:
    """log mix(f) for logits ``(B, C)``, accuracies ``alpha (B,)`` and top-k indicators ``top (B, C)``."""
    log_f = logits.log_softmax(-1)
    alpha = alpha.to(log_f.dtype).unsqueeze(-1)
    beta = 1 - alpha
    if normalise:
        beta = beta / (top.sum(-1, keepdim=True) - 1).clamp(min=1)
    gamma = alpha - beta
    # On a top entry mix = β + γ f. Where γ < 0 that is a difference; the same value as a sum is α + (β − α)(1 − f).
    mixed = torch.logaddexp(beta.log(), gamma.clamp(min=0).log() + log_f)
    if bool((gamma < 0).any()):
        flipped = torch.logaddexp(alpha.log(), (-gamma).clamp(min=0).log() + log_one_minus(logits))
        mixed = torch.where(gamma < 0, flipped, mixed)
    return torch.where(top, mixed, alpha.clamp(min=_SMALLEST).log() + log_f)


def forward_correction(logits: Tensor, transition: Tensor) -> Tensor:
    """log(Tᵀ f): the prediction seen through a label-noise matrix ``T[i, j] = P(noisy = j | true = i)``, ``(C, C)``."""
    log_f = logits.log_softmax(-1)
    # Shifted by the row's maximum, one matrix product replaces a (B, C, C) logsumexp.
    peak = log_f.detach().amax(-1, keepdim=True)
    mixed = (log_f - peak).exp() @ transition.to(log_f.dtype)
    return mixed.clamp(min=_SMALLEST).log() + peak
