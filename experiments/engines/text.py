"""Hugging Face sequence classifiers over token ids, pretrained where weights are at hand, tiny and random where not.

net = classifier("albert-base-v2", classes=2)                               # by name, or a folder with the weights
net = classifier("albert:hidden=64,layers=2,vocabulary=4000", classes=2)    # random weights of this size
data = tokens("words:4000", length=96)                                      # the reviews as ids (N, 96)
"""

from functools import cache
from typing import Any

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


def classifier(text: str, classes: int) -> nn.Module:
    import transformers

    name, tiny, options = text.partition(":")
    if not tiny:
        try:
            model = transformers.AutoModelForSequenceClassification.from_pretrained(name, num_labels=classes)
        except (OSError, ValueError) as error:
            raise UnderstudyError(
                f"the weights of {name} are not at hand ({first_line(error)}); run: hf download {name}"
            ) from error
        return TokenClassifier(model, int(model.config.pad_token_id or PADDING))
    if name != "albert":
        raise UnderstudyError(f"hf:{text}: only albert is built with random weights; name a pretrained model")
    sizes = {key: int(value) for key, value in (part.split("=") for part in options.split(","))}
    hidden = sizes["hidden"]
    config = transformers.AlbertConfig(
        vocab_size=sizes["vocabulary"], embedding_size=hidden, hidden_size=hidden, intermediate_size=2 * hidden,
        num_hidden_layers=sizes["layers"], num_attention_heads=max(1, hidden // 32), pad_token_id=PADDING,
        max_position_embeddings=512, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.1,
    )  # fmt: skip
    config.num_labels = classes
    return TokenClassifier(transformers.AlbertForSequenceClassification(config), PADDING)


@cache
def tokens(tokenizer: str, length: int, rows: int | None = None, test_rows: int | None = None) -> Data:
    """The Large Movie Review set as ids, cut or padded to ``length``; the first rows of each split, or all."""
    texts, labels, test_texts, test_labels = imdb()
    texts, labels, test_texts, test_labels = (
        texts[:rows],
        labels[:rows],
        test_texts[:test_rows],
        test_labels[:test_rows],
    )
    encode = _words(tokenizer, texts) if tokenizer.startswith("words:") else _pretrained(tokenizer)
    return Data(encode(texts, length), torch.tensor(labels), encode(test_texts, length), torch.tensor(test_labels), 2)


def _words(text: str, training: list[str]) -> Any:
    """The commonest lower-case words of the training texts; they are no labels, so reading all of them is fair."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    made = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    made.normalizer = normalizers.Sequence([normalizers.Replace("<br />", " "), normalizers.Lowercase()])
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[PAD]", "[UNK]", "[CLS]"]
    size = int(text.removeprefix("words:"))
    made.train_from_iterator(training, trainers.WordLevelTrainer(vocab_size=size, special_tokens=special))
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])

    def encode(texts: list[str], length: int) -> Tensor:
        made.enable_truncation(length)
        made.enable_padding(length=length, pad_id=PADDING)
        # In blocks: an encoding holds far more than its ids.
        blocks = [texts[start : start + 1000] for start in range(0, len(texts), 1000)]
        return torch.cat([torch.tensor([found.ids for found in made.encode_batch(block)]) for block in blocks])

    return encode


def _pretrained(name: str) -> Any:
    import transformers

    try:
        made = transformers.AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise UnderstudyError(f"the tokenizer of {name} is not at hand; run: hf download {name}") from error

    def encode(texts: list[str], length: int) -> Tensor:
        ids: Tensor = made(
            texts, truncation=True, padding="max_length", max_length=length, return_tensors="pt"
        ).input_ids
        return ids

    return encode
