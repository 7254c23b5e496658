"""Nets for students, as plain `nn.Module`s that end in an `nn.Linear`.

    from understudy import models
    student = models.mobilenet(inputs=(3, 32, 32), classes=10, width=1)
    student = models.from_text("mlp:128,128", shape=(784,), classes=10)
    models.build(models.spec_of(student))                              # the same net, fresh weights

Any other `nn.Module` serves as a student just as well.
"""

from understudy.models.image_nets import cifar_resnet, mobilenet, resnet18, resnet50
from understudy.models.registry import MODELS, build, from_text, model, spec_of
from understudy.models.small_nets import cnn5, lenet, linear, mlp

__all__ = [
    "MODELS", "build", "cifar_resnet", "cnn5", "from_text", "lenet", "linear", "mlp", "mobilenet", "model", "resnet18",
    "resnet50", "spec_of",
]  # fmt: skip
