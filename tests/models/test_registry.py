"""A net remembers how it was built, and can be built again from that note or from a command line."""

import copy
import json

import numpy as np
import pytest
import torch
from torch import nn

from understudy import models
from understudy.errors import UnderstudyError
from understudy.models import MODELS, build, from_text, spec_of

SMALL = {"linear": 12, "mlp": 12}


@pytest.mark.parametrize("name", sorted(MODELS.keys() & set(models.__all__)))
def test_every_name_is_public_and_rebuilds_the_same_shapes(name: str) -> None:
    assert MODELS[name] is getattr(models, name)
    with torch.device("meta"):
        net = MODELS[name](inputs=SMALL.get(name, (3, 32, 32)), classes=7)
        spec = json.loads(json.dumps(spec_of(net)))
        twin = build(spec)
    assert spec["name"] == name
    shapes = {key: value.shape for key, value in net.state_dict().items()}
    assert shapes == {key: value.shape for key, value in twin.state_dict().items()}
    assert spec_of(twin) == spec


def test_saved_weights_load_into_the_rebuilt_net() -> None:
    net = models.mlp(inputs=(2, 3), hidden=(5,), classes=4, dropout=0.2)
    spec = spec_of(net)
    assert spec is not None
    twin = build(spec)
    twin.load_state_dict(net.state_dict())
    x = torch.randn(6, 2, 3)
    assert torch.equal(net.eval()(x), twin.eval()(x))


def test_the_note_holds_defaults_and_plain_values() -> None:
    net = models.mlp(inputs=torch.Size([3, 4]), classes=np.int64(2), hidden=(np.int32(8), 9))
    assert spec_of(net) == {"name": "mlp", "args": {"inputs": [3, 4], "classes": 2, "hidden": [8, 9], "dropout": 0.0}}


def test_the_note_survives_a_deepcopy_and_is_not_shared() -> None:
    net = models.linear(inputs=3, classes=2)
    taken = spec_of(net)
    assert taken is not None
    taken["args"]["classes"] = 99
    copied = copy.deepcopy(net)
    assert spec_of(copied) == spec_of(net) == {"name": "linear", "args": {"inputs": 3, "classes": 2}}
    assert set(copied.state_dict()) == {"head.weight", "head.bias"}


def test_other_modules_have_no_note() -> None:
    assert spec_of(nn.Linear(2, 2)) is None


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"name": "mpl", "args": {}}, "there are .*lenet.*mlp"),
        ({"name": "mlp", "args": {"inputs": 3, "classes": 2, "hiden": [4]}}, "hiden.*takes.*hidden"),
        ({"name": "mlp", "args": {"classes": 2}}, "inputs.*takes"),
        ({"name": "mlp", "args": {"inputs": 3, "classes": 2, "hidden": ["a"]}}, "list of whole numbers"),
        ({"name": "mlp", "args": {"inputs": 3, "classes": 2, "dropout": 2}}, "cannot be built.*dropout"),
        ({"name": "linear", "args": {"inputs": 3, "classes": 0}}, "at least one class"),
        ({"name": "linear", "args": {"inputs": [], "classes": 2}}, "shape of a row"),
        ({"name": "resnet18", "args": {"inputs": [3, 8, 8], "classes": 2, "stem": "big"}}, "stem"),
        ({"name": "cifar_resnet", "args": {"depth": 21}}, "6n"),
        ({"name": "mobilenet", "args": {"width": 0}}, "width"),
        ({"name": "lenet", "args": {"inputs": [1, 8, 8]}}, "at least 12"),
        ({"args": {}}, "spec"),
    ],
)
def test_a_wrong_spec_is_one_clear_line(spec: dict[str, object], told: str) -> None:
    with pytest.raises(UnderstudyError, match=told) as error:
        build(spec)
    assert "\n" not in str(error.value)


def test_text_gives_hidden_sizes_and_options() -> None:
    net = from_text("mlp:64, 32,dropout=0.1", shape=(28, 28), classes=10)
    assert spec_of(net) == {
        "name": "mlp",
        "args": {"inputs": [28, 28], "classes": 10, "hidden": [64, 32], "dropout": 0.1},
    }
    assert net(torch.zeros(2, 28, 28)).shape == (2, 10)
    sizes = [(layer.in_features, layer.out_features) for layer in net.modules() if isinstance(layer, nn.Linear)]
    assert sizes == [(784, 64), (64, 32), (32, 10)]


@pytest.mark.parametrize("text", ["linear", "mlp", "lenet", "cifar_resnet", "cnn5", "mobilenet:width=0.25"])
def test_rows_of_height_and_width_are_images_of_one_channel(text: str) -> None:
    net = from_text(text, shape=(28, 28), classes=3)
    assert net(torch.randn(2, 28, 28)).shape == (2, 3)


def test_text_values_may_be_words() -> None:
    with torch.device("meta"):
        net = from_text("resnet18:stem=imagenet", shape=(3, 32, 32), classes=10)
    spec = spec_of(net)
    assert spec is not None and spec["args"]["stem"] == "imagenet"


@pytest.mark.parametrize(
    ("text", "shape", "told"),
    [
        ("lenet", (784,), "use mlp"),
        ("cifar_resnet", (1, 1, 28, 28), "channels, height, width"),
        ("mlp:128,x", (784,), "neither"),
        ("lenet:128", (1, 28, 28), "no hidden layers"),
        ("mlp:classes=3", (784,), "comes from the data"),
        ("mlp:dropout=0.1,dropout=0.2", (784,), "twice"),
        ("mlp:drop=0.1", (784,), "takes.*dropout"),
        ("perceptron", (784,), "there are"),
        ("perceptron:3", (784,), "there are"),
    ],
)
def test_wrong_text_is_one_clear_line(text: str, shape: tuple[int, ...], told: str) -> None:
    with pytest.raises(UnderstudyError, match=told) as error:
        from_text(text, shape=shape, classes=10)
    assert "\n" not in str(error.value)
