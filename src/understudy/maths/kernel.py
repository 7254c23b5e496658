"""The empirical neural tangent kernel of a batch, and how much of a label vector it calls informative.

Paper 003 (2.3): gradient descent fits the part of the labels that lies along the kernel's top eigenvectors first.
With J the Jacobian of a scalar output, one row per example, H = J Jᵀ; the *information ratio* of labels y is
‖P y‖ / ‖y‖, P the projection on the span of H's top r = 5 eigenvectors (Figure 2). The *information gain* of
self-distilled labels is their ratio minus that of the labels they replace (3.5, Figure 5).

    H = empirical_kernel(model, x)                     # (B, B), a batch of 128 in the paper
    information_ratio(H, y)                            # falls as label noise grows
    information_gain(H, refined=alpha * y + (1 - alpha) * h, given=y)

The kernel is exact: per-example gradients by `torch.func`, in chunks, so memory is chunk · parameters for the blocks of J
rather than batch · parameters. Per-example gradients exist only where an example's output is its own, so the model
is evaluated in eval mode (BatchNorm with its running statistics, no dropout) and put back.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from understudy.errors import UnderstudyError


def empirical_kernel(
    model: nn.Module,
    x: Tensor,
    *,
    output: Callable[[Tensor], Tensor] | None = None,
    chunk: int = 32,
) -> Tensor:
    """H[i, j] = ⟨∂f(xᵢ)/∂θ, ∂f(xⱼ)/∂θ⟩ over the trainable parameters, (B, B).

    `output` makes one number of a row of the model's outputs (C,), e.g. `lambda z: z[1] - z[0]`; a model with a single
    output needs none.
    """
    if chunk < 1:
        raise UnderstudyError(f"chunk = {chunk} examples at a time is none; give 1 or more")
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        per_example = vmap(grad(_scalar_output(model, output)), in_dims=(None, 0))
        theta = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
        starts = range(0, len(x), chunk)
        kernel = torch.zeros(len(x), len(x), dtype=next(model.parameters()).dtype, device=x.device)
        for i in starts:
            rows = per_example(theta, x[i : i + chunk])
            for j in starts:
                if j > i:
                    break
                columns = rows if j == i else per_example(theta, x[j : j + chunk])
                block = sum(rows[name].flatten(1) @ columns[name].flatten(1).T for name in theta)
                kernel[i : i + chunk, j : j + chunk] = block
                kernel[j : j + chunk, i : i + chunk] = block.T
        return kernel
    finally:
        for module, mode in modes.items():
            module.training = mode
