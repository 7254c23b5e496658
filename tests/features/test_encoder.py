"""Texts by an encoder: a tiny random BERT, its pooling by hand, and what the cache spares."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.features.encoder import Encoded, Encoder, Layout, read_layout
from understudy.features.featuriser import FeatureOptions, Featuriser
from understudy.features.tabular import Tfidf

transformers = pytest.importorskip("transformers")
# The library alone takes seconds to import.
pytestmark = pytest.mark.slow
States = Callable[[str], torch.Tensor]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "a", "very", "##ly", "é", "日", "本"]
TEXTS = ["a good film", "bad", "", "a very very good film", "日本 é 🙂", "BAD film", "bad " * 100]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=16).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "embeddings"


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that really went through an encoder."""
    seen: list[str] = []
    embed = Encoder.embed

    def spy(self: Encoder, texts: list[str]) -> Any:
        seen.extend(texts)
        return embed(self, texts)

    monkeypatch.setattr(Encoder, "embed", spy)
    return seen


def _columns(texts: list[str]) -> dict[str, Any]:
    return {"text": np.array(texts, dtype=object)}


def _fit(folder: Path, texts: list[str] = TEXTS, **more: Any) -> Featuriser:
    return Featuriser.fit(_columns(texts), FeatureOptions(text="text", encoder=str(folder), **more), where="t.csv")


def _sentence_folder(bert: Path, folder: Path, modes: dict[str, Any], *kinds: str) -> Path:
    """A folder as sentence-transformers writes it."""
    shutil.copytree(bert, folder)
    steps = [{"idx": n, "path": f"{n}_{kind}" if n else "", "type": f"models.{kind}"} for n, kind in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(steps))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    return folder


@pytest.fixture(scope="module")
def states(bert: Path) -> Callable[[str], torch.Tensor]:
    """One text alone, so without padding: (tokens, 8)."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    model = transformers.AutoModel.from_pretrained(bert).eval()

    def of(text: str) -> torch.Tensor:
        with torch.no_grad():
            return model(**tokenizer(text, return_tensors="pt", truncation=True)).last_hidden_state[0]

    return of


def test_the_mean_over_tokens(bert: Path, states: States) -> None:
    fitted = _fit(bert)
    x = fitted(_columns(TEXTS), where="t.csv")
    assert x.dtype == np.float32 and x.shape == (len(TEXTS), 8) and fitted.shape == (8,)
    wanted = torch.stack([states(text).mean(0) for text in TEXTS])
    np.testing.assert_allclose(x, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("modes", "pool"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, lambda s: s[0]),
        ({"pooling_mode_max_tokens": True}, lambda s: s.max(0).values),
        ({"pooling_mode": "cls"}, lambda s: s[0]),
        ({"pooling_mode": ["mean", "max"]}, lambda s: torch.cat([s.mean(0), s.max(0).values])),
        ({}, lambda s: s.mean(0)),
    ],
)
def test_pooling_of_sentence_folders(
    bert: Path, states: States, tmp_path: Path, modes: dict[str, Any], pool: Any
) -> None:
    folder = _sentence_folder(bert, tmp_path / "st", modes, "Transformer", "Pooling", "Normalize")
    x = _fit(folder)(_columns(TEXTS), where="t.csv")
    wanted = torch.stack([pool(states(text)) for text in TEXTS])
    np.testing.assert_allclose(x, wanted / wanted.norm(dim=1, keepdim=True), atol=1e-6)


def test_settings_of_sentence_folders(bert: Path, states: States, tmp_path: Path) -> None:
    folder = _sentence_folder(bert, tmp_path / "st", {}, "Transformer", "Pooling")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 5, "do_lower_case": true}')
    prompts = '{"prompts": {"query": "very "}, "default_prompt_name": "query"}'
    (folder / "config_sentence_transformers.json").write_text(prompts)
    layout = read_layout(folder)
    assert layout == Layout(folder, max_tokens=5, lower=True, prompt="very ")
    # [CLS] very bad film [SEP]: the rest is cut.
    x = _fit(folder)(_columns(["BAD film a a a a a"]), where="t.csv")
    np.testing.assert_allclose(x[0], states("very bad film").mean(0), atol=1e-6)


def test_a_second_run_encodes_nothing(bert: Path, encoded: list[str]) -> None:
    texts = [f"a film {number}" for number in range(20)] * 2
    x = _fit(bert, texts)(_columns(texts), where="t.csv")
    assert sorted(encoded) == sorted(set(texts)), "every distinct text once"
    encoded.clear()
    assert (_fit(bert, texts)(_columns(texts), where="t.csv") == x).all() and encoded == []
    new = ["new 1", "new 2"]
    mixed = _fit(bert, texts)(_columns([*new, *texts]), where="t.csv")
    assert sorted(encoded) == new and (mixed[2:] == x).all()
    # Another reading of the same texts is another encoder.
    (bert / "sentence_bert_config.json").write_text('{"max_seq_length": 3}')
    _fit(bert, texts)(_columns(texts), where="t.csv")
    assert len(encoded) == len(new) + 20


def test_the_weights_are_not_read_for_cached_texts(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = _fit(bert)(_columns(TEXTS), where="t.csv")
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", None)
    assert (_fit(bert)(_columns(TEXTS), where="t.csv") == x).all()


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_damaged_cache_entries_are_encoded_anew(bert: Path, cache: Path, encoded: list[str], damage: str) -> None:
    x = _fit(bert)(_columns(TEXTS), where="t.csv")
    shard = max(cache.rglob("*.safetensors"), key=lambda path: path.stat().st_size)
    content = bytearray(shard.read_bytes())
    content[-3] ^= 1
    shard.write_bytes({"truncate": content[:-20], "flip": content, "empty": b""}[damage])
    encoded.clear()
    with pytest.warns(UnderstudyWarning, match="is damaged .* encoded anew"):
        again = _fit(bert)(_columns(TEXTS), where="t.csv")
    assert len(encoded) == len(TEXTS) - 1, "all but the first text, which has a shard of its own"
    np.testing.assert_allclose(again, x, atol=1e-6)
    encoded.clear()
    assert (_fit(bert)(_columns(TEXTS), where="t.csv") == again).all() and encoded == []


def test_an_unwritable_cache_is_a_warning(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "file"))
    with pytest.warns(UnderstudyWarning, match="embeddings are not kept"):
        assert _fit(bert)(_columns(TEXTS), where="t.csv").shape == (7, 8)


def test_the_same_bits_after_loading(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {**_columns(TEXTS), "stars": np.arange(7.0)}
    request = FeatureOptions(text="text", encoder=str(bert), columns=("stars",))
    fitted = Featuriser.fit(columns, request, where="t.csv")
    fitted.save(tmp_path / "run")
    x = fitted(columns, where="t.csv")
    assert x.shape == (7, 9)
    # Without the cache, too.
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "other"))
    with_other_cache = Featuriser.load(tmp_path / "run")(columns, where="t.csv")
    assert np.allclose(with_other_cache, x, atol=1e-6)
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))
    assert (Featuriser.load(tmp_path / "run")(columns, where="t.csv") == x).all()


def test_a_changed_encoder_is_refused(bert: Path, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "bert")
    _fit(tmp_path / "bert").save(tmp_path / "run")
    (tmp_path / "bert" / "tokenizer_config.json").write_text("{}")
    with pytest.raises(UnderstudyError, match="has changed since training"):
        Featuriser.load(tmp_path / "run")(_columns(TEXTS), where="t.csv")


def test_nothing_is_drawn_or_said(bert: Path, capfd: pytest.CaptureFixture[str]) -> None:
    state, level = torch.get_rng_state(), transformers.utils.logging.get_verbosity()
    _fit(bert)(_columns(TEXTS), where="t.csv")
    assert (torch.get_rng_state() == state).all()
    assert transformers.utils.logging.get_verbosity() == level <= logging.ERROR
    assert "".join(capfd.readouterr()) == ""


def test_errors_are_one_line(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnderstudyError, match="no such folder"):
        _fit(tmp_path / "nowhere")
    with pytest.raises(UnderstudyError, match=r"t\.csv: column 'text' row 1 holds half a character"):
        _fit(bert)(_columns(["good", "\ud83d"]), where="t.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnderstudyError, match="cannot load the encoder"):
        _fit(tmp_path / "empty")
    folder = _sentence_folder(bert, tmp_path / "dense", {}, "Transformer", "Pooling", "Dense")
    with pytest.raises(UnderstudyError, match="the step 'Dense'"):
        _fit(folder)
    folder = _sentence_folder(bert, tmp_path / "last", {"pooling_mode_lasttoken": True}, "Transformer", "Pooling")
    with pytest.raises(UnderstudyError, match="pools by 'lasttoken'"):
        _fit(folder)
    (folder / "modules.json").write_text('[{"type": "models.Transformer", "path": "../x"}]')
    with pytest.raises(UnderstudyError, match="no folder beside it"):
        _fit(folder)
    (folder / "modules.json").write_text('{"a": 1}')
    with pytest.raises(UnderstudyError, match="damaged"):
        _fit(folder)
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(UnderstudyError, match=r'pip install .*\[hf\]"'):
        _fit(bert, ["not cached"])


def test_pickled_weights_are_refused(bert: Path, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "bert")
    model = transformers.AutoModel.from_pretrained(bert)
    torch.save(model.state_dict(), tmp_path / "bert" / "pytorch_model.bin")
    (tmp_path / "bert" / "model.safetensors").unlink()
    with pytest.raises(UnderstudyError, match=r"cannot load the encoder .* safetensors"):
        _fit(tmp_path / "bert")


def test_missing_weights_are_refused(bert: Path, tmp_path: Path) -> None:
    import safetensors.torch

    shutil.copytree(bert, tmp_path / "bert")
    path = tmp_path / "bert" / "model.safetensors"
    state = safetensors.torch.load_file(path)
    gone = next(key for key in state if "layer.1" in key)
    safetensors.torch.save_file({key: value for key, value in state.items() if key != gone}, path)
    with pytest.raises(UnderstudyError, match="lacks the weights"):
        _fit(tmp_path / "bert")


def test_auto_takes_what_is_installed(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("UNDERSTUDY_ENCODER")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("understudy.features.installed_encoders.PACKAGE", "no-such-package")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "hub" / "models--org--tiny" / "snapshots" / "abc"
    _sentence_folder(bert, folder, {}, "Transformer", "Pooling")
    # One that cannot be used is passed over.
    odd = _sentence_folder(bert, tmp_path / "hub" / "models--a--odd" / "snapshots" / "abc", {}, "Transformer", "Dense")
    fitted = Featuriser.fit(_columns(TEXTS), FeatureOptions(text="text", encoder="auto"), where="t.csv")
    assert "Texts: a/odd is not used: " in capsys.readouterr().err
    shutil.rmtree(odd.parents[1])
    (part,) = fitted.parts
    assert isinstance(part, Encoded) and (part.encoder, part.revision) == ("org/tiny", "abc")
    x = fitted(_columns(TEXTS), where="t.csv")
    fitted.save(tmp_path / "run")
    # Known by its content: moved to another place and name, it is still the encoder of the run.
    shutil.move(tmp_path / "hub" / "models--org--tiny", tmp_path / "hub" / "models--org--other")
    assert (Featuriser.load(tmp_path / "run")(_columns(TEXTS), where="t.csv") == x).all()
    shutil.rmtree(tmp_path / "hub")
    with pytest.raises(UnderstudyError, match=r"needs the encoder org/tiny \(content .*\), which is not here; .*pip"):
        Featuriser.load(tmp_path / "run")(_columns(TEXTS), where="t.csv")
    auto = Featuriser.fit(_columns(TEXTS * 3), FeatureOptions(text="text", encoder="auto"), where="t.csv")
    assert isinstance(auto.parts[0], Tfidf)
    monkeypatch.setenv("UNDERSTUDY_ENCODER", str(bert))
    chosen = Featuriser.fit(_columns(TEXTS), FeatureOptions(text="text", encoder="auto"), where="t.csv")
    assert isinstance(chosen.parts[0], Encoded) and chosen.parts[0].encoder == str(bert)


def test_texts_of_as_many_tokens_meet_in_a_batch(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many characters they have: every second is an unknown word, shorter or longer than six known ones."""
    shapes, embed = [], Encoder._embed_batch

    def spy(self: Encoder, tokens: dict[str, list[Any]]) -> np.ndarray:
        shapes.append({len(row) for row in tokens["input_ids"]})
        return embed(self, tokens)

    monkeypatch.setattr(Encoder, "_embed_batch", spy)
    texts = [" ".join([TEXTS[0].split()[0]] * 6) if row % 2 else "q" * (10 + 20 * row) for row in range(64)]
    vectors = Encoder.find(str(bert)).embed(texts)
    assert len(shapes) == 2 and all(len(lengths) == 1 for lengths in shapes)
    np.testing.assert_allclose(vectors[::2], np.repeat(vectors[:1], 32, 0), atol=1e-6)
    np.testing.assert_allclose(vectors[1::2], np.repeat(vectors[1:2], 32, 0), atol=1e-6)
    assert abs(vectors[0] - vectors[1]).max() > 1e-3
