"""Fine-tuning MiniLM on movie reviews: what padding by the batch spares, and what ``us.train`` costs over a bare loop.

Padding: the same rows of an epoch, padded to the longest of all reviews (fixed), to the longest of the batch, and that
with ``group_by_length``. Target: 1.5 times the rows per second of fixed padding. The loop: one epoch of
``us.train(us.text(…))`` beside one by hand, with transformers' own collator, the model's own loss and the same fused
AdamW, over the same rows in the same batches; both build the student. Target: at most 1.05 of its time.

    UNDERSTUDY_MINILM=… python -m benchmarks.text_training            # about 4 minutes of one core
"""

import os
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from experiments.data import data_file
from experiments.frozen import MINILM, missing
from torch import nn

import understudy as us
from benchmarks.figures import Figure, main
from benchmarks.timing import interleave
from understudy.data.batches import plan_epoch
from understudy.errors import UnderstudyError
from understudy.models.registry import reader_of

ROWS, BATCH, LR = 256, 32, 5e-5


def figures(repeats: int = 3) -> list[Figure]:
    if (why := missing(MINILM)) is not None:
        raise UnderstudyError(f"{why}; experiments/frozen.py says how to get it")
    table = pq.read_table(data_file("text/mr_chatgpt.parquet"))
    some = table.filter(pc.greater_equal(table["chatgpt_label"], 0)).slice(0, ROWS)
    texts, labels = some["text"].to_pylist(), torch.tensor(some["chatgpt_label"].to_pylist())
    return padding(table["text"].to_pylist(), texts, labels, repeats) + loop(texts, labels, repeats)


def padding(every: list[str], texts: list[str], labels: torch.Tensor, repeats: int) -> list[Figure]:
    student = us.text(os.environ[MINILM], classes=2)()
    pool = us.Pool(texts, us.Hard(labels))
    reader = reader_of(student)
    assert reader is not None
    longest = int(reader.tokens(every).lengths.max())
    padded = reader.pad(reader.tokens(texts).take(torch.arange(len(texts))))
    more = longest - padded["input_ids"].shape[1]
    fixed = us.Pool({name: nn.functional.pad(value, (0, more)) for name, value in padded.items()}, us.Hard(labels))

    def epoch(rows: us.Pool, **options: Any) -> Callable[[], None]:
        def run() -> None:
            session = us.Session(student, None, rows, us.vanilla(), batch_size=BATCH, **options)
            for batch in session.batches(0):
                session.loss(student, batch).backward()
            student.zero_grad()

        return run

    names = {"fixed": epoch(fixed), "by batch": epoch(pool), "alike": epoch(pool, group_by_length=True)}
    times = interleave(names, repeats=repeats)
    rate = {name: len(texts) / seconds for name, seconds in times.items()}
    peer = f"padded to {longest} tokens, the longest"
    return [
        Figure(what, "rows/s", rate[name], peer, rate["fixed"], rate[name] / rate["fixed"], target)
        for what, name, target in (
            ("texts padded by the batch", "by batch", "≥ 1.5"),
            ("and texts of similar length together", "alike", "≥ 1.5"),
        )
    ]


def loop(texts: list[str], labels: torch.Tensor, repeats: int) -> list[Figure]:
    import transformers

    student = us.text(os.environ[MINILM], classes=2)
    pool = us.Pool(texts, us.Hard(labels))
    batches = [rows.tolist() for _, rows in plan_epoch(0, len(texts), batch_size=BATCH, seed=0, epoch=0)]

    def ours() -> None:
        us.train(student, None, pool, us.vanilla(), epochs=1, lr=LR, clip=None, refine=False, progress=False)

    def bare() -> None:
        folder = os.environ[MINILM]
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2).train()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        collate = transformers.DataCollatorWithPadding(tokenizer)
        read = tokenizer(texts, truncation=True)
        rows = [
            {"input_ids": ids, "attention_mask": mask, "labels": label}
            for ids, mask, label in zip(read["input_ids"], read["attention_mask"], labels.tolist(), strict=True)
        ]
        optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.0, fused=True)
        for index in batches:
            model(**collate([rows[row] for row in index])).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    times = interleave({"ours": ours, "bare": bare}, repeats=repeats)
    ratio = times["ours"] / times["bare"]
    what = "us.train(us.text(…)), one epoch of 256 reviews"
    return [Figure(what, "s", times["ours"], "a loop over transformers", times["bare"], ratio, "≤ 1.05")]


if __name__ == "__main__":
    main(figures)
