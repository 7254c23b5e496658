"""Small nets: softmax regression and the multilayer perceptron for rows of any shape, and two early kinds of CNN."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.models.registry import AsImages, Shape, classifier, conv_norm, image_shape, model, network, row_size


def takes_sparse(module: nn.Module) -> bool:
    """Whether what meets a batch first is a layer that can take it sparse."""
    layers = [layer for layer in module.children() if not isinstance(layer, nn.Flatten)]
    return isinstance(module, nn.Sequential) and bool(layers) and isinstance(layers[0], SparseLinear)


# Rows from which on products are arranged anew: a small batch would feel the operators more. And columns from which on
# few rows of weights are multiplied by so many rows at a time: with its derivative in 65 to 90% of the time.
_MANY_ROWS = _MANY_COLUMNS = 1024


class SparseLinear(nn.Linear):
    """A linear layer that also takes sparse rows (``sparse_batch``): the logits of dense rows, at 1 % of the work.

    PyTorch multiplies sparse rows by a dense matrix quickly, but its derivative changes their layout on every call (48
    ms where the product takes 0.2, for 10,000 reviews); SciPy reads the same arrays the other way round as they lie.
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.out_features == 2 and len(x) >= _MANY_ROWS:
            return self._of_two(x)
        if x.layout != torch.sparse_csr:
            many = self.training and x.dim() == 2 and len(x) >= _MANY_ROWS and self.in_features >= _MANY_COLUMNS
            if not (many and x.is_cpu) or torch.is_autocast_enabled("cpu") or self.bias is None:
                return super().forward(x)
            parts = [self.weight @ part.t() for part in x.split(_MANY_ROWS)]
            return (torch.cat(parts, dim=1) + self.bias.unsqueeze(1)).t()
        product: Tensor = _Product.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return product + self.bias

    def _of_two(self, x: Tensor) -> Tensor:
        """A softmax sees the difference of two logits alone, and one row of weights makes it at half the work."""
        weight, bias = self.weight[1:] - self.weight[:1], self.bias[1] - self.bias[0]
        is_sparse = x.layout == torch.sparse_csr
        product = _Product.apply(x, weight).squeeze(1) if is_sparse else x.mv(weight[0])  # type: ignore[no-untyped-call]
        half = 0.5 * (product + bias)
        return torch.stack([-half, half], dim=1)


class _Product(torch.autograd.Function):
    """X Wᵀ; rows have no derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.x = x
        return x @ weight.t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        from scipy import sparse

        (gradient,) = gradients
        x: Tensor = ctx.x
        if x.device.type != "cpu":
            return None, (x.t() @ gradient).t()
        values, columns, rows = x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()
        matrix: Any = sparse.csr_matrix((values, columns, rows), shape=(x.shape[0], x.shape[1]), copy=False)
        return None, torch.from_numpy(matrix.T @ gradient.contiguous().numpy()).t()

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        along = tangents[1]
        return None if along is None else ctx.x @ along.t()


def curvatures(net: nn.Module, x: Tensor, rows: int) -> list[tuple[Tensor, Tensor]]:
    """The parameters of a linear student, and about the second derivatives by them of the mean cross-entropy over so
    many rows, ``x`` among them: those of a student that does not know yet; nothing of any other net."""
    layers = [layer for layer in net.children() if not isinstance(layer, nn.Flatten)]
    if len(layers) != 1 or not isinstance(layer := layers[0], SparseLinear):
        return []
    if x.layout == torch.sparse_csr:
        found = x.values().new_zeros(x.shape[1]).index_add_(0, x.col_indices(), x.values().square())
    else:
        # Some rows at a time, whose squares stay in the cache: 3 ms for 5,000 × 2,000, where vector_norm takes 50.
        found = torch.stack([part.square().sum(0) for part in x.flatten(1).split(64)]).sum(0)
    spread = (layer.out_features - 1) / layer.out_features**2
    return [(layer.weight, found * (spread / rows)), (layer.bias, found.new_tensor(spread * len(x) / rows))]


# A convex loss has one minimum, so that a start only decides what directions say of which the rows say nothing: little.
# Not nothing: two nets that teach each other must differ.
SMALL = 1e-3
WIDEST = 10_000_000


@model
def linear(inputs: Shape, classes: int) -> nn.Module:
    """Softmax regression. Its penultimate features are the row itself; a batch may be sparse."""
    head = classifier(row_size(inputs), classes, SparseLinear)
    net = network(flatten=nn.Flatten(), head=head)
    with torch.no_grad():
        head.weight.mul_(SMALL)
    return net


@model
def mlp(inputs: Shape, classes: int, hidden: Sequence[int] = (128, 128), dropout: float = 0.0) -> nn.Module:
    """Fully connected layers with ReLU, and optional dropout after each. The S-Badge paper has one layer of 512."""
    layers: list[nn.Module] = []
    size = row_size(inputs)
    for width in hidden:
        if not 1 <= width <= WIDEST:
            raise UnderstudyError(f"mlp(hidden={list(hidden)}): a layer has 1 to {WIDEST:,} units; leave out others")
        layers += [nn.Linear(size, width), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        size = width
    return network(flatten=nn.Flatten(), body=nn.Sequential(*layers), head=classifier(size, classes))


@model
def lenet(inputs: Shape = (1, 28, 28), classes: int = 10) -> nn.Module:
    """LeNet-5, the "standard LeNet" of Ren et al. (2018), 4.1, imbalanced MNIST, with today's ReLU and max pooling.

    The paper gives no sizes; these are LeCun et al. (1998): 6 and 16 maps of 5×5, then 120 and 84 units: 61,706
    parameters for 28×28 and ten classes. The first convolution pads by 2, which turns 28×28 into the 32×32 of the
    original. Images of 12×12 or more.
    """
    channels, height, width = image_shape(inputs, smallest=12)
    first, second = nn.Conv2d(channels, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
    layers = [AsImages(), first, nn.ReLU(), nn.MaxPool2d(2), second, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    left = ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)
    body = nn.Sequential(nn.Linear(16 * left, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU())
    return network(maps=nn.Sequential(*layers), body=body, head=classifier(84, classes))


@model
def cnn5(inputs: Shape = (3, 32, 32), classes: int = 10, dropout: float = 0.5) -> nn.Module:
    """The 5-layer CNN that is the student in Section 2.1 of Dong et al. (2019), self-distillation (its Table 2).

    Three 3×3 convolutions of 32, 64 and 128 channels, each with batch normalisation, ReLU and 2×2 max pooling; a fully
    connected layer of 512 with batch normalisation; the classifier behind dropout. Left open by the table and decided
    here: convolutions keep the image size, ReLU also follows the 512, and the dropout rate is 0.5. Images of 8×8 or
    more.
    """
    channels, height, width = image_shape(inputs, smallest=8)
    maps: list[nn.Module] = [AsImages()]
    for outputs in (32, 64, 128):
        maps += [*conv_norm(channels, outputs), nn.ReLU(), nn.MaxPool2d(2)]
        channels = outputs
    size = channels * (height // 8) * (width // 8)
    body = nn.Sequential(nn.Linear(size, 512, bias=False), nn.BatchNorm1d(512), nn.ReLU())
    head = nn.Sequential(nn.Dropout(dropout), classifier(512, classes))
    return network(maps=nn.Sequential(*maps, nn.Flatten()), body=body, head=head)
