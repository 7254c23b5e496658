"""Hugging Face sequence classifiers over token ids, as full-scale Table 8 of SLaM has them.

net = classifier("albert-base-v2", classes=2)           # by name, or a folder with the weights
data = tokens("albert-base-v2", length=512)             # the reviews as ids (N, 512)
"""

from functools import cache

import torch
from torch import Tensor, nn

from experiments.datasets.form import Data
from experiments.datasets.imdb import imdb
from understudy.errors import UnderstudyError, first_line

PADDING = 0


class TokenClassifier(nn.Module):
    """Takes ids (B, T) and tells the model which of them are padding."""

    def __init__(self, model: nn.Module, padding: int) -> None:
        super().__init__()
        self.model, self.padding = model, padding

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=ids, attention_mask=(ids != self.padding).long()).logits
        return logits


def classifier(name: str, classes: int) -> nn.Module:
    import transformers

    try:
        model = transformers.AutoModelForSequenceClassification.from_pretrained(name, num_labels=classes)
    except (OSError, ValueError) as error:
        raise UnderstudyError(
            f"the weights of {name} are not at hand ({first_line(error)}); run: hf download {name}"
        ) from error
    return TokenClassifier(model, int(model.config.pad_token_id or PADDING))


@cache
def tokens(name: str, length: int, rows: int | None = None, test_rows: int | None = None) -> Data:
    """The Large Movie Review set as a tokenizer's ids, cut or padded to ``length``; its first rows, or all."""
    import transformers

    try:
        made = transformers.AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise UnderstudyError(f"the tokenizer of {name} is not at hand; run: hf download {name}") from error

    def encode(texts: list[str]) -> Tensor:
        ids: Tensor = made(
            texts, truncation=True, padding="max_length", max_length=length, return_tensors="pt"
        ).input_ids
        return ids

    texts, labels, test_texts, test_labels = imdb()
    y, y_test = torch.tensor(labels[:rows]), torch.tensor(test_labels[:test_rows])
    return Data(encode(texts[:rows]), y, encode(test_texts[:test_rows]), y_test, 2)
