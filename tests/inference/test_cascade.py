"""``inference/cascade.py``: the combination and the rule as a server applies them."""

import json
import subprocess
import sys

import numpy as np
import pytest

import understudy as us
from understudy.inference.cascade import COMBINATION, DEFERRAL, Cascade, Combination, DeferralRule

# P(label | y): the teacher calls a tenth of class 0 and half of class 1 by the other's name.
CONFUSION = np.array([[0.9, 0.1], [0.5, 0.5]])
PLAIN = Combination(np.array([1.0, 1.0]), np.zeros(2), np.log(CONFUSION))


def test_combined_is_bayes_rule_at_weights_of_one() -> None:
    probs = np.array([[0.5, 0.5], [0.8, 0.2], [0.5, 0.5]])
    found = Cascade(PLAIN).combine(probs, np.array([0, 1, -1]))
    # 0.9·0.5 : 0.5·0.5; 0.1·0.8 : 0.5·0.2; no label: the student's.
    assert found == pytest.approx(np.array([[9 / 14, 5 / 14], [4 / 9, 5 / 9], [0.5, 0.5]]))


def test_soft_labels_have_a_weight_of_their_own() -> None:
    soft = Combination(np.array([0.0, 1.0, 2.0]), np.zeros(2), np.log(CONFUSION))
    found = soft(np.array([[0.5, 0.5]]), np.array([[0.6, 0.4]]))
    assert found == pytest.approx(np.array([[0.36 / 0.52, 0.16 / 0.52]]))
    unknown = Cascade(soft).combine(np.array([[0.3, 0.7]]), np.full((1, 2), np.nan))
    assert unknown == pytest.approx(np.array([[0.3, 0.7]]))


def test_rule_by_class_and_for_all() -> None:
    probs = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    assert Cascade().defer(probs).tolist() == [False] * 3
    assert Cascade(None, DeferralRule([0.15], "teacher")).defer(probs).tolist() == [False, True, True]
    assert Cascade(None, DeferralRule([0.15, 2.0], "teacher")).defer(probs).tolist() == [False, True, False]
    answer = Cascade(None, DeferralRule([0.3], "teacher")).combine(probs, np.array([1, 1, 0]))
    assert answer.argmax(1).tolist() == [0, 1, 1]  # only the deferred row takes the teacher's label


def test_stored_and_loaded_without_torch(tmp_path) -> None:
    rule = DeferralRule([0.25], "combined", {"target": 0.9})
    rule.save(tmp_path)
    (tmp_path / COMBINATION).write_bytes(PLAIN.to_bytes())
    code = (
        "import sys; from understudy.inference.cascade import Cascade; c = Cascade.load(sys.argv[1]);"
        "assert 'torch' not in sys.modules and 'scipy' not in sys.modules; print(c.rule, c.combination.weights)"
    )
    printed = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == f"{rule} {PLAIN.weights}"
    assert Cascade.load(tmp_path / "none") == Cascade()
    content = json.loads((tmp_path / DEFERRAL).read_text())
    (tmp_path / DEFERRAL).write_text(json.dumps(content | {"thresholds": [0.9]}))
    with pytest.raises(us.UnderstudyError, match="run understudy defer again"):
        Cascade.load(tmp_path)
