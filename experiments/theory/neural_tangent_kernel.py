"""The empirical neural tangent kernel of a batch, and how much of a label vector it calls informative.

Dong et al. (2019), 2.3: gradient descent fits the part of the labels along the kernel's top eigenvectors first.
With J the Jacobian of a scalar output, one row per example, H = J Jᵀ; the *information ratio* of labels y is
‖P y‖ / ‖y‖, P the projection on the span of H's top r = 5 eigenvectors (Figure 2). The *information gain* of
self-distilled labels is their ratio minus that of the labels they replace (3.5, Figure 5).

    H = empirical_kernel(model, x)                     # (B, B), a batch of 128 in the paper
    information_ratio(H, y)                            # falls as label noise grows
    information_gain(H, refined=alpha * y + (1 - alpha) * h, given=y)

The kernel is exact, by per-example gradients. They exist only where an example's output is its own, so the model is
evaluated in eval mode (BatchNorm with its running statistics, no dropout) and its mode is put back.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from understudy.errors import UnderstudyError

Theta = dict[str, Tensor]


def empirical_kernel(
    model: nn.Module, x: Tensor, *, output: Callable[[Tensor], Tensor] | None = None, chunk: int = 64
) -> Tensor:
    """H[i, j] = ⟨∂f(xᵢ)/∂θ, ∂f(xⱼ)/∂θ⟩ over the trainable parameters, (B, B).

    `output` makes one number of a row of the model's outputs (C,), e.g. `lambda z: z[1] - z[0]`; a model with a single
    output needs none. Memory is 2 · chunk gradients; a chunk as large as the batch computes each of them only once.
    """
    if chunk < 1:
        raise UnderstudyError(f"chunk = {chunk} examples at a time is none; give 1 or more")
    theta = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        gradients = vmap(grad(_scalar(model, output)), in_dims=(None, 0))
        return _gram(lambda rows: gradients(theta, rows), x.split(chunk))
    finally:
        for module, mode in modes.items():
            module.training = mode


def information_ratio(kernel: Tensor, labels: Tensor, r: int = 5) -> Tensor:
    """‖P y‖ / ‖y‖ for each label vector y, (B,) or (B, k) for k of them; P projects on the kernel's top r eigenvectors.

    For ±1 labels; centre one-hot columns first, or the constant vector dominates. A zero vector has ratio 0.
    """
    if not 1 <= r <= len(kernel):
        raise UnderstudyError(
            f"r = {r} eigenvectors of a {len(kernel)} × {len(kernel)} kernel; give 1 to {len(kernel)}"
        )
    if len(labels) != len(kernel):
        raise UnderstudyError(f"{len(labels)} labels for a kernel of {len(kernel)} examples; give one per example")
    top = torch.linalg.eigh(kernel.double()).eigenvectors[:, -r:]  # ascending order: the largest come last
    y = labels.double()
    size = y.norm(dim=0)
    return torch.where(size > 0, (top.T @ y).norm(dim=0) / size, 0.0)


def information_gain(kernel: Tensor, *, refined: Tensor, given: Tensor, r: int = 5) -> Tensor:
    """Ratio of the refined (self-distilled) labels minus ratio of the given ones: positive where refining informs."""
    both = information_ratio(kernel, torch.stack([refined.double(), given.double()], dim=-1).flatten(1), r)
    return both[0] - both[1]


def _scalar(model: nn.Module, output: Callable[[Tensor], Tensor] | None) -> Callable[[Theta, Tensor], Tensor]:
    def f(theta: Theta, row: Tensor) -> Tensor:
        z = functional_call(model, theta, (row.unsqueeze(0),))[0]
        value = z.squeeze() if output is None else output(z)
        if value.dim() != 0:
            raise UnderstudyError(
                f"the kernel needs one number per example, the model gives {tuple(value.shape)}; pass output=, "
                "e.g. lambda z: z[1] - z[0]"
            )
        return value

    return f


def _gram(gradients: Callable[[Tensor], Theta], blocks: tuple[Tensor, ...]) -> Tensor:
    """J Jᵀ, block by block of the lower triangle."""
    lower: list[list[Tensor]] = []
    for i, block in enumerate(blocks):
        rows = gradients(block)
        columns = (gradients(other) for other in blocks[:i])
        lower.append([_inner(rows, column) for column in columns] + [_inner(rows, rows)])
    n = len(blocks)
    bands = [torch.cat([lower[i][j] if j <= i else lower[j][i].T for j in range(n)], dim=1) for i in range(n)]
    whole = torch.cat(bands)
    return (whole + whole.T) / 2  # rounding differs across the diagonal of a block


def _inner(rows: Theta, columns: Theta) -> Tensor:
    products = [rows[name].flatten(1) @ columns[name].flatten(1).T for name in rows]
    return torch.stack(products).sum(0)
