"""A Hugging Face sequence classifier as student, with a vocabulary made from the texts themselves."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from experiments.engines import text
from experiments.engines.distil import Distillation, Method
from experiments.engines.text import TokenClassifier, classifier, tokens
from experiments.sweep import Training

import understudy as us

# Importing transformers alone takes seconds.
pytestmark = pytest.mark.slow


@pytest.fixture
def reviews(data_folder: Path) -> Iterator[None]:
    """Short reviews whose label one word gives away."""
    for split, count in (("train", 80), ("test", 20)):
        for name, word in (("neg", "awful"), ("pos", "lovely")):
            folder = data_folder / "aclImdb" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                (folder / f"{number}.txt").write_text(f"a {word} film number {number % 7}", encoding="utf-8")
    tokens.cache_clear()
    yield
    tokens.cache_clear()


@pytest.fixture(scope="module")
def albert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tokenizer and of a model of one layer with random weights."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder = str(tmp_path_factory.mktemp("albert"))
    words = ["[PAD]", "[UNK]", "[CLS]", "a", "awful", "lovely", "film", "number", *map(str, range(7))]
    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]").save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.AlbertConfig(
        vocab_size=len(words), embedding_size=32, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=1, pad_token_id=text.PADDING, max_position_embeddings=16, num_labels=2,
    )  # fmt: skip
    transformers.AlbertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_words_become_ids_cut_and_padded(reviews: None, albert: str) -> None:
    data = tokens(albert, 4)
    assert data.x.shape == (160, 4) and data.x_test.shape == (40, 4)
    assert (data.x[:, 0] == 2).all(), "every text begins with [CLS]"
    # Which of the two words it was is all that tells the classes apart.
    assert len(data.x[data.y == 1][:, 2].unique()) == len(data.x[data.y == 0][:, 2].unique()) == 1
    longer = tokens(albert, 12, rows=10)
    assert longer.x.shape == (10, 12) and (longer.x[:, -1] == text.PADDING).all()


def test_padding_does_not_change_the_answer(albert: str) -> None:
    student = classifier(albert, 2).eval()
    assert isinstance(student, TokenClassifier)
    ids = torch.tensor([[2, 5, 7, 9]])
    with torch.no_grad():
        padded = student(torch.cat([ids, torch.zeros(1, 4, dtype=torch.long)], 1))
        assert torch.allclose(student(ids), padded, atol=1e-5)


def test_a_hugging_face_student_learns_from_a_hugging_face_teacher(reviews: None, albert: str) -> None:
    quick = Training(epochs=12, batch_size=16, lr=3e-3)
    setting = Distillation(
        "imdb", f"hf:{albert}", f"hf:{albert}", (60,), 20,
        (Method("Vanilla", "vanilla"), Method("VID", "vid", (0.001,)), Method("SLaM", "slam")),
        quick, quick, Training(epochs=1, batch_size=16), unlabelled=60, drawn=True, tokenizer=albert, length=8,
    )  # fmt: skip
    with pytest.warns(us.UnderstudyWarning):
        found = {cell.row: cell.value for cell in setting.measure("60", 0)}
    assert found["Teacher"] > 0.9 and found["Vanilla"] > 0.9 and found["SLaM"] > 0.9


def test_weights_that_are_not_at_hand_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(us.UnderstudyError, match="hf download") as error:
        classifier(str(tmp_path), 2)
    assert "\n" not in str(error.value)
