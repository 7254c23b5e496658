"""Rows with a collator, and rows that are mappings of tensors: gold and pool rows of a batch get one padding."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import understudy as us
from understudy.data.batches import fetch_batches, plan_epoch
from understudy.data.inputs import as_rows, concatenate
from understudy.data.rows import ConcatRows, MappingRows, SubsetRows
from understudy.errors import UnderstudyError

GENERATOR = torch.Generator().manual_seed(0)
TEXTS = [torch.randint(1, 9, (length,), generator=GENERATOR).tolist() for length in [3, 7, 1, 5, 2, 8, 4, 6] * 5]
LABELS = [text[0] % 2 for text in TEXTS]


def pad(items: list[list[int]]) -> dict[str, Tensor]:
    """Token ids, 0 where a text has ended, and which of them are tokens."""
    longest = max(map(len, items))
    ids = torch.tensor([item + [0] * (longest - len(item)) for item in items])
    return {"input_ids": ids, "attention_mask": (ids > 0).long()}


class Bag(nn.Module):
    """A student that takes keyword arguments, as Hugging Face models do."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 8), nn.Linear(8, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        shown = attention_mask.unsqueeze(-1)
        return self.head((self.embed(input_ids) * shown).sum(1) / shown.sum(1).clamp(min=1))  # type: ignore[no-any-return]


def sets(x: Any, **options: Any) -> tuple[us.Gold, us.Pool]:
    part = (lambda s: {k: v[s] for k, v in x.items()}) if isinstance(x, dict) else (lambda s: x[s])
    probs = torch.tensor(LABELS[10:]).unsqueeze(1) == torch.arange(2)
    teacher = probs.float() * 0.8 + 0.1
    return us.Gold(part(slice(10)), LABELS[:10], **options), us.Pool(part(slice(10, None)), teacher, **options)


def train(gold: us.Gold, pool: us.Pool, **options: Any) -> us.Run:
    torch.manual_seed(0)
    return us.train(Bag(), gold, pool, us.vanilla(), epochs=2, batch_size=16, lr=0.05, **options)


def test_gold_and_pool_rows_of_a_batch_are_collated_in_one_call() -> None:
    calls: list[list[list[int]]] = []

    def recorded(items: list[list[int]]) -> dict[str, Tensor]:
        calls.append(items)
        return pad(items)

    gold, pool = sets(TEXTS, collate=recorded)
    plan = plan_epoch(len(gold), len(pool), batch_size=16, seed=1)
    for number, (x, golds, pools) in enumerate(fetch_batches(gold.rows, pool.rows, plan)):
        wanted = [TEXTS[i] for i in golds.tolist()] + [TEXTS[10 + i] for i in pools.tolist()]
        assert calls[number] == wanted
        assert x["input_ids"].equal(pad(wanted)["input_ids"])
    assert len(calls) == len(plan)


def test_texts_of_different_lengths_train() -> None:
    run = train(*sets(TEXTS, collate=pad))
    _, pool = sets(TEXTS, collate=pad)
    assert run.predict(pool.x).shape == (30, 2)
    padded = train(*sets(pad(TEXTS)))
    # Padding is masked, so the length it is padded to is of no account.
    assert torch.allclose(run.predict(pool.x), padded.predict(sets(pad(TEXTS))[1].x), atol=1e-5)


def test_workers_collate_too() -> None:
    gold, pool = sets(TEXTS, collate=pad)
    alone, helped = train(gold, pool), train(gold, pool, workers=2)
    assert alone.predict(pool.x).equal(helped.predict(pool.x))


def test_parts_and_sums_keep_the_collator() -> None:
    gold, pool = sets(TEXTS, collate=pad)
    index = torch.tensor([4, 0, 7])
    wanted = pad([TEXTS[4], TEXTS[0], TEXTS[7]])["input_ids"]
    part = gold.take(index)
    assert isinstance(part.rows, SubsetRows)
    assert part.rows.take(torch.arange(3))["input_ids"].equal(wanted)
    both = part + us.Gold(TEXTS[10:13], LABELS[10:13], collate=pad)
    assert isinstance(both.rows, ConcatRows)
    mixed = both.rows.take(torch.tensor([3, 1, 5]))["input_ids"]
    assert mixed.equal(pad([TEXTS[10], TEXTS[0], TEXTS[12]])["input_ids"])
    assert us.Gold(pool.take(index).rows, [0, 1, 0]).rows.collate is pad
    train(both, pool)


def test_different_collators_are_refused() -> None:
    gold, pool = sets(TEXTS, collate=pad)
    other = us.Pool(TEXTS[10:], pool.teacher, collate=lambda items: pad(items))
    plain = us.Pool(pad(TEXTS[10:]), pool.teacher)
    for wrong in (other, plain):
        with pytest.raises(UnderstudyError, match="pass the same function as collate="):
            train(gold, wrong)
    with pytest.raises(UnderstudyError, match="different collators"):
        concatenate(gold.rows, plain.rows)


@pytest.mark.parametrize(
    ("x", "collate", "message"),
    [
        (TEXTS, 3, "collate is a int"),
        (pad(TEXTS), pad, "and x a dict"),
        (as_rows(torch.ones(3, 2), "x"), pad, "and x a TensorRows"),
        (7, pad, "and x a int"),
    ],
)
def test_what_cannot_be_collated_is_refused(x: Any, collate: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        us.Pool(x, collate=collate)


@pytest.mark.parametrize(
    ("collate", "message"),
    [
        (lambda items: (torch.ones(len(items), 2), torch.ones(len(items))), "collate made tuple of 2 rows"),
        (lambda items: torch.ones(len(items) + 1, 2), r"shape \(3, 2\) of 2 rows"),
        (lambda items: {"text": items}, "list as 'text'"),
    ],
)
def test_what_is_no_batch_is_refused(collate: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        us.Pool(TEXTS, collate=collate).rows.take(torch.arange(2))


def test_a_mapping_is_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.arange(12).reshape(6, 2))
    x = {"ids": np.load(tmp_path / "ids.npy", mmap_mode="r"), "weight": np.linspace(0, 1, 6)}
    rows = as_rows(x, "x")
    assert isinstance(rows, MappingRows)
    assert len(rows) == 6 and rows.is_mapped and not rows.per_row and rows.preferred_block is None
    rows.will_need(torch.arange(2))
    batch = rows.take(torch.tensor([5, 0]))
    assert batch["ids"].tolist() == [[10, 11], [0, 1]]
    assert batch["weight"].dtype == torch.float32
    with pytest.raises(UnderstudyError, match="row 1 holds NaN"):
        us.Pool({"x": [0.0, float("nan")]})


def test_mappings_train_and_resume(tmp_path: Path) -> None:
    gold, pool = sets(pad(TEXTS))
    run = train(gold, pool, out=tmp_path / "run")
    assert us.Run.load(tmp_path / "run", student=Bag()).predict(pool.x).equal(run.predict(pool.x))
    found = us.leaks_between(gold, pool, gold)
    assert [leak.rows for leak in found if (leak.kind, leak.sets) == ("exact", ("gold", "test"))] == [10]
