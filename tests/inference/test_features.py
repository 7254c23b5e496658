"""Penultimate features: the right tensor, the right shape, and no trace left on the module."""

import copy
from collections import UserDict
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from understudy import models
from understudy.errors import UnderstudyError
from understudy.inference.passes import FeatureTap, logits_of


@dataclass
class Output:
    logits: Tensor


class TextNet(nn.Module):
    """As Hugging Face models are called: keywords in, an object with .logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 6)
        self.classifier = nn.Linear(6, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Output:
        kept = attention_mask.unsqueeze(-1)
        mean = (self.embedding(input_ids) * kept).sum(1) / kept.sum(1)
        return Output(self.classifier(input=mean))


class HeadFirst(nn.Module):
    """Registers its head before its body, and an unused Linear after both."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.body = nn.Sequential(nn.Linear(5, 4), nn.ReLU(inplace=True))
        self.unused = nn.Linear(5, 7)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x))
        return out


def hooks(module: nn.Module) -> int:
    return sum(len(layer._forward_hooks) + len(layer._forward_pre_hooks) for layer in module.modules())


@pytest.mark.parametrize("name", ["mlp", "lenet", "cifar_resnet", "mobilenet", "cnn5"])
def test_head_of_the_features_gives_the_logits(name: str) -> None:
    shape = (1, 16, 16) if name == "lenet" else (3, 16, 16)
    net = models.MODELS[name](inputs=shape, classes=4).eval()
    x = torch.randn(3, *shape)
    head = [layer for layer in net.modules() if isinstance(layer, nn.Linear)][-1]
    tap = FeatureTap(net)
    for _ in range(2):
        logits, features = tap(x)
        torch.testing.assert_close(logits, net(x))
        torch.testing.assert_close(head(features), logits)
    assert hooks(net) == 0


def test_last_is_the_last_that_ran() -> None:
    net = HeadFirst()
    x = torch.randn(2, 5)
    tap = FeatureTap(net)
    _, features = tap(x)
    assert tap.layer == "head"
    torch.testing.assert_close(features, net.body(x))


def test_a_linear_net_sees_its_rows() -> None:
    x = torch.randn(3, 2, 4)
    _, features = FeatureTap(models.linear((2, 4), 2))(x)
    assert torch.equal(features, x.flatten(1))
    bare = nn.Linear(4, 2)
    tap = FeatureTap(bare)
    assert torch.equal(tap(x[:, 0])[1], x[:, 0])
    assert torch.equal(tap(x[:, 1])[1], x[:, 1])


def test_named_layer_gives_its_output_even_when_overwritten_later() -> None:
    net = HeadFirst()
    x = torch.randn(6, 5)
    _, features = FeatureTap(net, "body.0")(x)
    torch.testing.assert_close(features, net.body[0](x))
    assert (features < 0).any(), "the in-place ReLU behind it must not show"


def test_convolution_maps_are_flattened() -> None:
    net = models.cifar_resnet((3, 8, 8), 2).eval()
    x = torch.randn(2, 3, 8, 8)
    _, features = FeatureTap(net, "body")(x)
    assert features.shape == (2, 64 * 2 * 2)
    torch.testing.assert_close(features, net[:2](x).flatten(1))  # type: ignore[index]


def test_one_number_per_row_is_a_column() -> None:
    class Squeezed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))

        def forward(self, x: Tensor) -> Tensor:
            score = self.score(x)
            return torch.stack([score, -score], 1)

    assert FeatureTap(Squeezed(), "score")(torch.randn(4, 3))[1].shape == (4, 1)


def test_mappings_and_logits_objects() -> None:
    net = TextNet()
    batch = {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 0]]), "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]])}
    logits, features = FeatureTap(net)(batch)
    assert torch.equal(logits, logits_of(net, UserDict(batch)))
    torch.testing.assert_close(net.classifier(features), logits)


def test_sequences_are_averaged_under_the_mask() -> None:
    """Row 2 has one padding token: the mean of its first two embeddings, by hand."""
    net = TextNet()
    nn.init.ones_(net.embedding.weight[1:].data)
    net.embedding.weight.data[4] = 3.0
    net.embedding.weight.data[0] = 100.0
    batch = {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 0]]), "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]])}
    _, features = FeatureTap(net, "embedding")(batch)
    torch.testing.assert_close(features, torch.tensor([[1.0] * 6, [2.0] * 6]))


def test_sequences_without_a_mask_are_averaged() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Linear(4, 5)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.mix(x)
            return out[:, -1]

    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(FeatureTap(Tokens())(x)[1], x.mean(1))


def test_gradients_flow_through_features() -> None:
    net = models.mlp(4, 2, hidden=(3,))
    _, features = FeatureTap(net)(torch.randn(5, 4))
    features.sum().backward()
    grads = {key: parameter.grad for key, parameter in net.named_parameters()}
    assert grads["head.weight"] is None
    assert grads["body.0.weight"] is not None


def test_inference_mode() -> None:
    net = models.mlp(4, 2, hidden=(3,))
    x = torch.randn(5, 4)
    for layer in (None, "body.0"):
        tap = FeatureTap(net, layer)
        with torch.inference_mode():
            logits, features = tap(x)
        assert logits.is_inference() and features.shape == (5, 3)
        assert FeatureTap(net, layer)(x)[1].requires_grad


def test_copies_carry_no_hook() -> None:
    net = models.mlp(4, 2, hidden=(3,))
    tap = FeatureTap(net)
    before = tap(torch.ones(1, 4))[1]
    twin = copy.deepcopy(net)
    assert hooks(net) == hooks(twin) == 0
    twin(torch.zeros(1, 4))
    assert torch.equal(tap(torch.ones(1, 4))[1], before)


def test_nothing_stays_behind_when_the_pass_fails() -> None:
    net = models.mlp(4, 2, hidden=(3,))
    for layer in (None, "body"):
        tap = FeatureTap(net, layer)
        with pytest.raises(RuntimeError):
            tap(torch.zeros(1, 9))
        assert hooks(net) == 0
        assert tap(torch.zeros(1, 4))[1].shape == (1, 3)
        assert hooks(net) == 0


def test_a_module_that_wraps_the_tapped_one_is_called_instead() -> None:
    net, x = models.mlp(4, 2, hidden=(3,)), torch.randn(5, 4)
    wrapped = nn.Sequential(nn.Identity(), net, nn.Softplus())
    for layer in (None, "body"):
        tap = FeatureTap(net, layer)
        logits, features = tap(x, call=wrapped)
        assert torch.equal(logits, wrapped(x))
        assert torch.equal(features, tap(x)[1])


def test_other_hooks_are_left_alone() -> None:
    net = models.mlp(4, 2, hidden=(3,))
    handle = net.register_forward_hook(lambda module, args, output: output + 1)
    plain = net(torch.zeros(1, 4))
    assert torch.equal(FeatureTap(net)(torch.zeros(1, 4))[0], plain)
    assert hooks(net) == 1
    handle.remove()


def test_clear_errors() -> None:
    with pytest.raises(UnderstudyError, match=r"no nn\.Linear.*name a layer"):
        FeatureTap(nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten()))
    with pytest.raises(UnderstudyError, match=r"no layer 'body\.1x'.*body\.1"):
        FeatureTap(models.mlp(4, 2), "body.1x")
    with pytest.raises(UnderstudyError, match="'unused' did not run"):
        FeatureTap(HeadFirst(), "unused")(torch.zeros(1, 5))

    class Bypass(HeadFirst):
        def forward(self, x: Tensor) -> Tensor:
            return x @ self.unused.weight.T

    with pytest.raises(UnderstudyError, match=r"no nn\.Linear ran"):
        FeatureTap(Bypass())(torch.zeros(1, 5))

    class Pairs(HeadFirst):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(torch.cat([x, x])).view(2, len(x), 3).mean(0)

    with pytest.raises(UnderstudyError, match=r"'head' saw \(4, 4\) for a batch of 2"):
        FeatureTap(Pairs())(torch.zeros(2, 5))

    class Dictionary(HeadFirst):
        def forward(self, x: Tensor) -> Tensor:
            return {"scores": super().forward(x)}  # type: ignore[return-value]

    with pytest.raises(UnderstudyError, match="Dictionary returned dict"):
        logits_of(Dictionary(), torch.zeros(2, 5))
    with pytest.raises(UnderstudyError, match="returns Output; name one that returns a tensor"):
        FeatureTap(TextNet(), "")({"input_ids": torch.ones(1, 1).long(), "attention_mask": torch.ones(1, 1)})


def test_a_tuple_gives_its_first_tensor() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRU(3, 4, batch_first=True)
            self.head = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(self.cell(x)[0][:, -1])
            return out

    net = Recurrent()
    x = torch.randn(2, 5, 3)
    torch.testing.assert_close(FeatureTap(net, "cell")(x)[1], net.cell(x)[0].mean(1))
    torch.testing.assert_close(FeatureTap(net)(x)[1], net.cell(x)[0][:, -1])
