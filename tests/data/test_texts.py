"""Batches of similar length, and tokens of many texts as one array: nothing of transformers is needed."""

import torch

from understudy.data.batches import plan_epoch
from understudy.data.inputs import TextRows, Tokens, as_rows
from understudy.store.fingerprints import fingerprint


def test_tokens_of_some_texts() -> None:
    tokens = Tokens.of([[5, 6], [], [7, 8, 9]])
    assert [item.tolist() for item in tokens.take(torch.tensor([2, 0, 1]))] == [[7, 8, 9], [5, 6], []]
    assert tokens.lengths.tolist() == [2, 0, 3]


def test_batches_of_similar_length_hold_every_row_once_and_less_padding() -> None:
    lengths = torch.randint(1, 60, (7 + 300,), generator=torch.Generator().manual_seed(0))
    options = {"batch_size": 8, "gold_repeat": 2, "seed": 3, "epoch": 1}

    def padded(plan: object) -> int:
        return sum(
            len(both) * int(both.max())
            for golds, pools in plan  # type: ignore[attr-defined]
            for both in [torch.cat([lengths[:7][golds], lengths[7:][pools]])]
        )

    alike, mixed = plan_epoch(7, 300, lengths=lengths, **options), plan_epoch(7, 300, **options)
    golds, pools = (torch.cat(part).sort().values for part in zip(*alike, strict=True))
    assert golds.tolist() == sorted([*range(7)] * 2) and pools.tolist() == list(range(300))
    real = int(2 * lengths[:7].sum() + lengths[7:].sum())
    assert real <= padded(alike) < 1.1 * real < 1.4 * real < padded(mixed)
    # Not from the longest to the shortest, and another order in every epoch, the same for the same seed.
    longest = [int(lengths[7:][pools].max()) for _, pools in alike if len(pools)]
    assert longest != sorted(longest, reverse=True)
    again = plan_epoch(7, 300, lengths=lengths, **options)
    later = plan_epoch(7, 300, lengths=lengths, **options | {"epoch": 2})
    assert again.order.equal(alike.order) and not later.order.equal(alike.order)


def test_a_fingerprint_knows_where_a_text_ends() -> None:
    assert fingerprint(TextRows(["ab", "c"])) != fingerprint(TextRows(["a", "bc"]))
    assert fingerprint(TextRows(["ab", "c"])) == fingerprint(as_rows(("ab", "c"), "x"))
