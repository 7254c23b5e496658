"""The audit's page: complete in itself, escaped, with a text for every picture."""

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import understudy as us
from understudy.auditing.audit import Audit
from understudy.report.audit_page import write_audit_report

pytestmark = pytest.mark.pictures

NAMES = ["<b>neg</b>", "pos & $x$", "3"]


def audit(sure: bool) -> Audit:
    rng = np.random.default_rng(0)
    truth, confidence = rng.integers(0, 3, 300), rng.uniform(0.5, 1, 300)
    label = np.where(rng.random(300) > confidence, (truth + 1) % 3, truth)
    probs = np.repeat((1 - confidence)[:, None] / 2, 3, axis=1)
    probs[np.arange(300), label] = confidence
    teacher = probs if sure else label
    x = rng.normal(size=(300, 2))
    ids = [f"<i>{row}</i>" for row in range(200)]
    return us.audit(
        us.Gold(x[:100], truth[:100], teacher=teacher[:100]),
        us.Pool(x[100:], teacher[100:], ids=ids),
        class_names=NAMES,
    )


def test_suspect_images_are_shown(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    x = (rng.random((80, 8, 8)) * 0.5 + 0.5 * y[:, None, None]).astype(np.float32)
    given = np.where(np.arange(80) % 9 == 4, 1 - y, y)
    gold, pool = us.Gold(x[:40], y[:40], teacher=given[:40]), us.Pool(x[40:], given[40:])
    found = us.audit(gold, pool, rows_wrong=3)
    write_audit_report(tmp_path / "audit.html", found, pool=pool)
    pictures = re.findall(r'src="data:image/png;base64,([^"]*)"', (tmp_path / "audit.html").read_text())
    assert found.suspects is not None and len(pictures) == 3
    drawn = np.asarray(Image.open(io.BytesIO(base64.b64decode(pictures[0]))))
    assert np.array_equal(drawn, (x[40 + found.suspects.top[0].row] * 255).astype(np.uint8))


@pytest.mark.parametrize("sure", [True, False])
def test_the_page_stands_alone(sure: bool, tmp_path: Path) -> None:
    found = audit(sure)
    write_audit_report(tmp_path / "audit.html", found, settings={"Gold file": "<gold>.csv"})
    text = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert not re.search(r"<script|https?:|@import|<link|javascript:|\son\w+=", text)
    for raw in ("<b>neg", "<i>", "<gold>"):
        assert raw not in text
    assert "&lt;b&gt;neg" in text and "pos &amp; $x$" in text
    ids = re.findall(r'id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert text.count('<svg class="wide"') == text.count("<figure") == (3 if sure else 2)
    open_tags: list[str] = []

    class Balanced(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "br", "wbr"):
                open_tags.append(tag)

        def handle_startendtag(self, tag: str, attrs: object) -> None:
            pass

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    Balanced().feed(text)
    assert not open_tags
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))
    assert f"{100 * found.noise.pool.estimate:.1f} {100 * found.noise.pool.low:.1f}–" in words
    assert ("Expected calibration error" in words) == sure


def test_gold_alone_has_a_page_too(tmp_path: Path) -> None:
    truth = np.arange(20) % 2
    write_audit_report(tmp_path / "audit.html", us.audit(us.Gold(np.zeros((20, 1)), truth, teacher=truth)))
    assert "Rows most likely mislabelled" not in (tmp_path / "audit.html").read_text(encoding="utf-8")


def test_classes_of_no_gold_row_are_left_out_of_the_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 200)
    label = truth.copy()
    label[190:] = 2
    found = us.audit(us.Gold(truth[:100, None], truth[:100], teacher=label[:100]),
                     us.Pool(truth[100:, None], label[100:]), class_names=["cat", "dog", "owl"])  # fmt: skip
    write_audit_report(tmp_path / "audit.html", found)
    text = " ".join((tmp_path / "audit.html").read_text(encoding="utf-8").split())
    assert '<th scope="row">cat</th>' in text and '<th scope="row">owl</th>' not in text
    assert "1 class that no gold row has or is predicted as (10.0% of the pool) is left out." in text
