"""A BERT of two layers and a vocabulary of a few words, and texts whose class a word gives away."""

from pathlib import Path

import torch

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "a", "very", "long", "##ly", "plot"]


def write_tiny_bert(folder: Path, *, layers: int = 2, dropout: float = 0.1, spread: float = 0.02) -> Path:
    """``spread``: of the weights; with much of it every token counts."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=24).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=layers, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=32, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
        initializer_range=spread,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    return folder


def some_texts(count: int, *, seed: int = 0) -> tuple[list[str], torch.Tensor]:
    """Texts of 2 to 12 words with "good" or "bad" somewhere, and which of them it is."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=generator)
    texts = []
    for label in labels.tolist():
        words = ["film", "a", "very", "long", "plot"]
        length = int(torch.randint(1, 12, (), generator=generator))
        chosen = [words[int(i)] for i in torch.randint(len(words), (length,), generator=generator)]
        chosen.insert(int(torch.randint(length + 1, (), generator=generator)), ["bad", "good"][label])
        texts.append(" ".join(chosen))
    return texts, labels
