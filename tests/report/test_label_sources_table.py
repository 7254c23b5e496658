"""Label sources: a table by weight, accuracies with their intervals, one sentence for the combined labels."""

import pytest

from understudy.maths.proportions import exact
from understudy.report.run_text import combined_accuracy, reconciled_share, source_table

FACTS = {
    "reconciled.log_loss": 0.4, "reconciled.accuracy": 0.85, "reconciled.gold_rows": 100.0, "train_seconds": 2.0,
    "reconciled.disagreement": 0.0, "reconciled.pool_rows": 1e9,
    **{f"reconciled.{name} of gold only": value for name, value in
       {"weight": 0.2, "accuracy": 0.7, "rows": 100.0, "log_loss": 0.8, "disagreement": 0.2}.items()},
    **{f"reconciled.{name} of gce": value for name, value in
       {"weight": 0.6, "accuracy": 0.8, "rows": 90.0, "log_loss": 0.5, "disagreement": 0.0}.items()},
}  # fmt: skip


def test_the_table_and_the_sentence() -> None:
    first, second = source_table(FACTS)
    assert first[:3] == ("gce", "your student, trained by gce", "0.60") and first[4] == "0.500"
    assert second[1] == "your student, trained on gold only"
    assert combined_accuracy(FACTS) == (
        "Reconciled labels: accuracy 85.0% (95% CI 77.0–91.0), cross-validated on 100 gold rows; log-loss 0.400 (best "
        "single source 0.500)."
    )
    few = {name: value for name, value in FACTS.items() if name != "reconciled.accuracy"}
    assert combined_accuracy(few).startswith("Reconciled labels: accuracy unknown (too few gold rows); log-loss 0.400")
    assert source_table({"train_seconds": 2.0}) == []


def test_labels_of_a_small_pool_differ_from_those_of_all_rows_by_chance() -> None:
    """Of as many pool rows as gold rows the variance is twice as large."""
    every, few = reconciled_share(FACTS), reconciled_share(FACTS | {"reconciled.pool_rows": 100.0})
    assert every is not None and few is not None and few.estimate == every.estimate
    assert few.estimate - few.low == pytest.approx(2**0.5 * (every.estimate - every.low))
    assert few.high - few.estimate == pytest.approx(2**0.5 * (every.high - every.estimate))


@pytest.mark.parametrize(("hits", "rows"), [(72, 90), (0, 20), (20, 20)])
def test_the_interval_is_that_of_its_gold_rows(hits: int, rows: int) -> None:
    share = exact(hits, rows)
    expected = f"{100 * hits / rows:.1f}% ({100 * share.low:.1f}–{100 * share.high:.1f})"
    facts = FACTS | {"reconciled.accuracy of gce": hits / rows, "reconciled.rows of gce": float(rows)}
    assert source_table(facts)[0][3] == expected
    assert source_table(facts | {"reconciled.rows of gce": 0.0})[0][3] == "–"
