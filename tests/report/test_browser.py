"""Every page in a real browser: nothing is wider than a phone or a window, whatever the classes are called."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import understudy as us
from understudy.active.loop_state import CORRECT, DEFERRED, TEST_ROWS
from understudy.report.audit_page import write_audit_report
from understudy.report.campaign_page import write_campaign_report
from understudy.report.comparison_page import write_comparison_report
from understudy.report.deferral_page import write_deferral_page
from understudy.report.estimates_page import write_estimates_report
from understudy.report.run_page import write_run_report

from .test_page import some_comparison

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium"),
    pytest.mark.filterwarnings("ignore::understudy.UnderstudyWarning"),
]

NAMES = [f"{what} of a {kind} payment" for what in ("Cancellation", "Beneficiary", "Exchange rate", "Refund")
         for kind in ("declined", "pending", "contactless")]  # fmt: skip
NAMES[:2] = "Zahlungsverkehrsabwicklungsgebühren", "Rückerstattung_nicht_angekommen"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All pages, of ten classes that occur and two that the teacher alone names."""
    folder, rng = tmp_path_factory.mktemp("pages"), np.random.default_rng(0)
    y = rng.integers(0, 10, 500)
    x = (np.eye(10)[y] + 0.3 * rng.normal(size=(500, 10))).astype(np.float32)
    said = np.where(rng.random(500) < 0.2, rng.integers(0, 12, 500), y)
    gold = us.Gold(x[:150], y[:150], teacher=said[:150])
    pool = us.Pool(x[150:400], said[150:400], ids=[f"row-{row:05d}" for row in range(250)])
    test = us.Gold(x[400:], y[400:], teacher=said[400:])
    run = us.train(
        us.models.linear(10, 12), gold, pool, us.vanilla(), epochs=3, test=test, out=folder / "run",
        progress=False, evaluate=True, notes={"class_names": NAMES},
    )  # fmt: skip
    names = ("run", "audit", "votes", "estimates", "deferral", "comparison", "camp")
    found = {name: folder / f"{name}.html" for name in names}
    write_run_report(found["run"], run, gold=gold, pool=pool, warnings=["a/folder/" + "of_a_long_name" * 6])
    audit = us.audit(gold, pool, class_names=NAMES)
    assert audit.suspects is not None
    audit.suspects.top[:] = [replace(one, text="some words " * 20, line=one.row) for one in audit.suspects.top]
    write_audit_report(found["audit"], audit)
    voters = ["Anna B.", "Björn", "Praktikant/in"]
    votes = np.where(rng.random((400, 3)) < 0.3, rng.integers(0, 12, (400, 3)), y[:400, None])
    voted = [us.Votes(part, 12, sources=voters) for part in (votes[:150], votes[150:])]
    by_votes = us.audit(us.Gold(x[:150], y[:150], teacher=voted[0]), us.Pool(x[150:400], voted[1]))
    write_audit_report(found["votes"], by_votes)
    estimates = us.estimate(gold, pool, what=["share", "precision"], class_names=NAMES)
    write_estimates_report(found["estimates"], estimates, (150, 250))
    write_deferral_page(found["deferral"], us.defer(run, target_accuracy=0.9, price=0.01))
    write_comparison_report(found["comparison"], some_comparison(), title="Comparison of methods")
    correct = ["".join(str(int(row % 9 > late)) for row in range(100)) for late in (2, 1, 0)]
    records: list[dict[str, Any]] = [
        {"round": place, "requested": 1000 * (place + 1), CORRECT: each, TEST_ROWS: "test", "watch": None}
        | {DEFERRED: {"share": 0.2, "accuracy": 0.9}}
        for place, each in enumerate(correct)
    ]
    write_campaign_report(found["camp"], records, price=0.25)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as program:
        opened = program.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(pages: dict[str, Path], browser: Any, width: int) -> None:
    wide = {}
    for name, path in pages.items():
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        wide[name] = page.evaluate(
            "[document.documentElement, ...document.querySelectorAll('.scroll')]"
            ".filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.innerText.slice(0, 60))"
        )
        page.close()
    assert not any(wide.values()), wide
