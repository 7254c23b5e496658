"""A Llama of one layer that says pos where a text holds "good" and neg where it holds "bad", with a chat template.

write_tiny_llama(folder, prompt)            # a folder that `transformers serve` takes; some seconds of training
"""

import random
from pathlib import Path
from typing import Any

import torch

WORDS = ["film", "plot", "long", "very", "a", "the", "was"]
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}answer:"


def some_texts(count: int, *, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts with "good" or "bad" somewhere, and what the model should say of them."""
    draw = random.Random(seed)
    texts, labels = [], []
    for _ in range(count):
        words = [draw.choice(WORDS) for _ in range(draw.randint(2, 8))]
        label = draw.choice(["neg", "pos"])
        words.insert(draw.randint(0, len(words)), {"neg": "bad", "pos": "good"}[label])
        texts.append(" ".join(words))
        labels.append(label)
    return texts, labels


def write_tiny_llama(folder: Path, prompt: Any, *, steps: int = 150) -> Path:
    import tokenizers
    import transformers

    def rendered(text: str) -> str:
        return "".join(f"{turn['content']} " for turn in prompt.messages(text, structured=False)) + "answer:"

    vocabulary = ["[UNK]", "[PAD]", "[BOS]", "[EOS]", "neg", "pos", "good", "bad", "answer", *WORDS]
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(vocabulary)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]", bos_token="[BOS]", eos_token="[EOS]"
    )
    tokenizer.chat_template = TEMPLATE
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=512, bos_token_id=2, eos_token_id=3, pad_token_id=1,
    )  # fmt: skip
    texts, labels = some_texts(16 * 20, seed=1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for step in range(steps):
            some = [(16 * step + offset) % len(texts) for offset in range(16)]
            lines = [tokenizer(rendered(texts[row]))["input_ids"] for row in some]
            # What is learned: the class, then the end; shorter lines are filled up behind it.
            longest = max(map(len, lines)) + 2
            ids, targets = torch.full((16, longest), 1), torch.full((16, longest), -100)
            for row, (line, number) in enumerate(zip(lines, some, strict=True)):
                said = [vocabulary.index(labels[number]), 3]
                ids[row, : len(line) + 2] = torch.tensor(line + said)
                targets[row, len(line) : len(line) + 2] = torch.tensor(said)
            loss = model(input_ids=ids, labels=targets).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.generation_config.do_sample = False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
