"""An exported folder made by hand: three classes by three words, nothing trained."""

import json
import math
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = ["neg", "neutral", "pos"]
WORDS = ["bad", "fine", "good"]


def write_model(folder: Path, *, classes: list[str] | None = None, strength: float = 4.0) -> Path:
    """``good`` is ``pos`` with probability e^strength / (2 + e^strength); others are a third each."""
    folder.mkdir(parents=True, exist_ok=True)
    part = {"kind": "tfidf", "name": "text", "terms": WORDS, "idf": [1.0, 1.0, 1.0]}
    settings = {"classes": classes or CLASSES, "parts": [part], "kinds": {}, "thresholds": {}, "beside": 1.0}
    (folder / "features.json").write_text(json.dumps(settings))
    weights = numpy_helper.from_array(np.eye(3, dtype=np.float32) * strength, "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Softmax", ["z"], ["p"], axis=-1)]
    x, p = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 3]) for name in "xp")
    graph = helper.make_graph(nodes, "tiny", [x], [p], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    return folder


def chance(strength: float = 4.0) -> float:
    return math.exp(strength) / (2 + math.exp(strength))
