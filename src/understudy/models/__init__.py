"""The nets the papers use, as plain `nn.Module`s that end in an `nn.Linear`.

    from understudy import models
    student = models.mobilenet(inputs=(3, 32, 32), classes=10, width=1)
    student = models.from_text("mlp:128,128", shape=(784,), classes=10)
    models.build(models.spec_of(student))                              # the same net, fresh weights

Any other `nn.Module` serves as a student just as well.
"""

from understudy.models.cifar_resnets import cifar_resnet, resnet20, resnet32, resnet56, resnet110
from understudy.models.dense import linear, mlp
from understudy.models.five_layers import cnn5
from understudy.models.lenets import lenet
from understudy.models.mobilenets import mobilenet
from understudy.models.preactivation_resnets import cifar_resnet_v2, resnet11
from understudy.models.registry import MODELS, build, from_text, model, spec_of
from understudy.models.resnet import resnet18, resnet50
from understudy.models.shaken_resnets import shake_shake
from understudy.models.wide_resnets import wide_resnet

__all__ = [
    "MODELS",
    "build",
    "cifar_resnet",
    "cifar_resnet_v2",
    "cnn5",
    "from_text",
    "lenet",
    "linear",
    "mlp",
    "mobilenet",
    "model",
    "resnet11",
    "resnet18",
    "resnet20",
    "resnet32",
    "resnet50",
    "resnet56",
    "resnet110",
    "shake_shake",
    "spec_of",
    "wide_resnet",
]
