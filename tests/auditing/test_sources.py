"""Each source of the votes: by hand, and what a copy, a coin and an expert add."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import understudy as us
from understudy.auditing.audit import Audit
from understudy.auditing.sources import _overlaps
from understudy.maths.proportions import exact
from understudy.report.audit_page import write_audit_report
from understudy.report.audit_text import print_audit

NAMES = ("expert", "fair", "coin", "never")


def _audited(gold_rows: int = 200, more: int = 0) -> Audit:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1000)
    skills = [0.9, 0.7, 0.5, *[0.55] * more]
    votes = np.stack([np.where(rng.random(1000) < skill, y, 1 - y) for skill in skills], 1)
    votes[rng.random(votes.shape) < 0.3] = -1
    votes = np.concatenate([votes[:, :3], np.full((1000, 1), -1), votes[:, 3:]], 1)
    names = [*NAMES, *(f"extra {number}" for number in range(more))]
    gold, pool = (us.Votes(part, 2, sources=names) for part in (votes[:gold_rows], votes[gold_rows:]))
    x = np.zeros((1000, 1))
    return us.audit(us.Gold(x[:gold_rows], y[:gold_rows], teacher=gold), us.Pool(x[gold_rows:], pool), rows_wrong=0)


def test_overlaps_by_hand() -> None:
    votes = torch.tensor([[0, 0, -1], [0, 1, -1], [1, -1, -1], [-1, -1, -1], [1, 1, 0]], dtype=torch.int8)
    coverage, overlap, conflict = _overlaps(votes)
    assert coverage == pytest.approx([4 / 5, 3 / 5, 1 / 5])
    assert overlap == pytest.approx([3 / 4, 1, 1])
    assert conflict == pytest.approx([2 / 4, 2 / 3, 1])


def test_the_expert_adds_most_and_the_coin_nothing() -> None:
    found = _audited().sources
    assert found is not None
    by_name = {one.name: one for one in found.each}
    assert [one.name for one in found.each[:2]] == ["expert", "fair"]
    assert by_name["expert"].gain.low > 0 and not by_name["expert"].harms
    assert by_name["expert"].net_correct > by_name["fair"].net_correct
    assert abs(by_name["coin"].gain.mean) < 0.01
    assert (
        by_name["never"].gain.mean == pytest.approx(0, abs=1e-4)
        and by_name["never"].coverage == 0
        and not by_name["never"].accuracy.known
    )
    assert by_name["coin"].coverage == pytest.approx(0.7, abs=0.05)
    assert found.accuracy.estimate > found.majority.estimate


def test_accuracy_is_counted_where_it_votes() -> None:
    truth = np.array([0, 0, 0, 1, 1, 1])
    votes = np.array([[0, 1], [0, -1], [1, -1], [-1, 1], [1, 1], [-1, 0]])
    found = us.audit(us.Gold(np.zeros((6, 1)), truth, teacher=us.Votes(votes, 2)), rows_wrong=0).sources
    assert found is not None
    by_name = {one.name: one for one in found.each}
    assert by_name["0"].accuracy == exact(3, 4) and by_name["1"].accuracy == exact(2, 4)
    assert by_name["0"].coverage == pytest.approx(4 / 6)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_next_to_no_gold(rows: int) -> None:
    votes = us.Votes(np.zeros((rows, 2), dtype=int), 2)
    found = us.audit(us.Gold(np.zeros((rows, 1)), np.arange(rows) % 2, teacher=votes), rows_wrong=0)
    assert found.sources is not None and found.sources.each[0].accuracy.known


def test_other_labels_have_no_sources() -> None:
    gold = us.Gold(np.zeros((40, 1)), np.arange(40) % 2, teacher=np.arange(40) % 2)
    assert us.audit(gold).sources is None
    single = us.Gold(np.zeros((40, 1)), np.arange(40) % 2, teacher=us.Votes((np.arange(40) % 2)[:, None], 2))
    assert us.audit(single).sources is None


def test_terminal_json_and_page(tmp_path: Path) -> None:
    audit = _audited(more=20)
    out = io.StringIO()
    print_audit(audit, Console(file=out, width=100))
    assert "expert" in out.getvalue() and "… 4 more" in out.getvalue()
    assert any("expert has the largest gain of 24 sources" in sentence for sentence in audit.verdict)
    stored = json.loads(json.dumps(audit.to_dict()))["sources"]
    assert stored["each"][0]["name"] == "expert" and len(stored["each"]) == 24
    assert stored["each"][0]["gain"]["low"] > 0
    write_audit_report(tmp_path / "audit.html", audit)
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "<h2>Sources</h2>" in page and "4 more sources" in page and page.count(">extra ") == 20
    assert 'us.Votes(by="gold")' in [one.method for one in audit.expectations]
