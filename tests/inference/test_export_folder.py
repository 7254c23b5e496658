"""An exported folder predicts raw rows as the run does, in a Python that has neither torch nor this package."""

import csv
import io
import json
import math
import subprocess
import sys
import urllib.error
import urllib.request
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch

import understudy as us
from tiny_bert import write_tiny_bert
from understudy.data.inputs import as_rows
from understudy.errors import UnderstudyError
from understudy.features.featuriser import FeatureOptions, Featuriser
from understudy.inference import standalone
from understudy.inference.cascade import Cascade, DeferralRule
from understudy.inference.export import export
from understudy.inference.passes import predict

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow
ALONE = """
import sys
for name in ("torch", "understudy", "scipy", "sklearn", "transformers", "pyarrow", "safetensors", "tokenizers"):
    sys.modules[name] = None
sys.path.insert(0, sys.argv[1])
import json
from predict import Model
model = Model()
rows = json.loads(sys.stdin.read())
print(json.dumps([model.predict(rows), model.predict_proba(rows).tolist()]))
"""
ROWS: dict[str, list[Any]] = {
    "message": ["How do I reset my PIN?", "pin pin reset", "", "Wo ist die Karte über 3 Tage?", "the card the card"],
    "age": [31.0, 64.0, 18.5, 40.0, 22.0],
    "job": ["clerk", "cook", "clerk", "", "pilot"],
}


def a_run(folder: Path, rows: dict[str, list[Any]], options: FeatureOptions, **config: Any) -> us.Run:
    """A run with an untrained student, as files have made it."""
    arrays = {name: np.array([*values, None], object)[:-1] for name, values in rows.items()}
    if "age" in arrays:
        arrays["age"] = np.array(rows["age"])
    featuriser = Featuriser.fit(arrays, options, where="rows")
    folder.mkdir()
    featuriser.save(folder)
    torch.manual_seed(0)
    student = us.models.mlp(inputs=int(np.prod(featuriser.shape)), classes=3, hidden=(8,)).eval()
    run = us.Run(student, [], {}, config={"class_names": ["A", "B b", "Ö"], **config}, path=folder)
    run.config["expected"] = predict(student, as_rows(featuriser(arrays, where="rows"), "rows"))
    return run


def alone(folder: Path, rows: Any) -> tuple[list[str], np.ndarray[Any, Any]]:
    command = [sys.executable, "-c", ALONE, str(folder)]
    done = subprocess.run(command, input=json.dumps(rows), capture_output=True, text=True, check=True)
    names, probs = json.loads(done.stdout)
    return names, np.array(probs)


def test_texts_numbers_and_categories(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", ROWS, FeatureOptions(text="message", columns=("age", "job"), max_categories=9))
    run.rule = DeferralRule([0.63, 0.62, 0.6], "abstain")
    folder = export(run, tmp_path / "model")
    records = [dict(zip(ROWS, values, strict=True)) for values in zip(*ROWS.values(), strict=True)]
    expected = run.config["expected"].numpy()
    for rows in (ROWS, records):
        names, probs = alone(folder, rows)
        np.testing.assert_allclose(probs, expected, atol=1e-5)
        assert names == [run.config["class_names"][best] for best in expected.argmax(1)]
    # Its answer was the first class, with a confidence of NaN.
    with pytest.raises(ValueError, match="row 2 gives no probabilities; its numbers are too large"):
        standalone.answer(standalone.Model(folder), [*records[:2], {**records[2], "age": float("inf")}])
    deferred = [one["deferred"] for one in standalone.answer(standalone.Model(folder), records)]
    assert deferred == Cascade.load(folder).defer(expected).tolist() and len({*deferred}) == 2
    with pytest.raises(UnderstudyError, match="already exists"):
        export(run, tmp_path / "model")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[us.Run, Path]:
    folder, texts = tmp_path_factory.mktemp("exported"), {"text": ROWS["message"]}
    run = a_run(folder / "run", texts, FeatureOptions(text="text"), columns={"text": "message"})
    return run, export(run, folder / "model")


def test_columns_are_named_as_in_the_users_files(exported: tuple[us.Run, Path]) -> None:
    run, folder = exported
    model = standalone.Model(folder)
    assert model.names == ["message"]
    expected = run.config["expected"].numpy()
    np.testing.assert_allclose(model.predict_proba(ROWS["message"]), expected, atol=1e-5)
    assert model.predict_proba([]).shape == (0, 3)
    with pytest.raises(ValueError, match="no column 'message'"):
        model.predict([{"text": "a"}])
    with pytest.raises(ValueError, match="give a list"):
        model.predict("a text")
    assert "`message`" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_folder_that_differs_does_not_appear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(tmp_path / "run", {"text": ROWS["message"]}, FeatureOptions(text="text"))
    wrong = tmp_path / "wrong.py"
    source = Path(standalone.__file__).read_text(encoding="utf-8")
    wrong.write_text(source.replace("1 + np.log(block[seen])", "1 + 0 * block[seen]"), encoding="utf-8")
    monkeypatch.setattr(standalone, "__file__", str(wrong))
    with pytest.raises(UnderstudyError, match=r"was not written: its predict\.py gives probabilities that differ"):
        export(run, tmp_path / "model", example={"text": ["pin pin pin reset"] * 3})
    assert not (tmp_path / "model").exists()


def test_it_serves(exported: tuple[us.Run, Path]) -> None:
    run, folder = exported
    standalone.Handler.model = standalone.Model(folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), standalone.Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/predict"

        def ask(body: Any) -> Any:
            try:
                with urllib.request.urlopen(address, data=json.dumps(body).encode(), timeout=20) as reply:
                    return reply.status, json.load(reply)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        status, content = ask({"rows": ROWS["message"]})
        assert status == 200
        best = [one["confidence"] for one in content["predictions"]]
        np.testing.assert_allclose(best, run.config["expected"].max(1).values, atol=1e-5)
        assert ask({"rows": [1, 2]})[0] == 400
        assert ask([])[0] == 400
        server.shutdown()


def test_images(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for number in range(3):
        pixels = rng.integers(0, 256, (12, 9, 3)).astype(np.uint8)
        pillow.fromarray(pixels).save(tmp_path / f"{number}.png")
    paths = {"photo": [str(tmp_path / f"{number}.png") for number in range(3)]}
    options = FeatureOptions(image="photo", image_size=(8, 8))
    arrays = {"photo": np.array(paths["photo"], object)}
    featuriser = Featuriser.fit(arrays, options, where="rows", folder=tmp_path)
    (tmp_path / "run").mkdir()
    featuriser.save(tmp_path / "run")
    torch.manual_seed(0)
    student = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2)).eval()
    model = standalone.Model(export(us.Run(student, [], {}, path=tmp_path / "run"), tmp_path / "model"))
    expected = predict(student, featuriser(arrays, where="rows", folder=tmp_path))
    np.testing.assert_allclose(model.predict_proba(paths["photo"]), expected, atol=1e-5)
    assert model.classes == ["0", "1"]


@pytest.mark.torture
def test_an_encoder_of_images(tmp_path: Path) -> None:
    pillow, transformers = pytest.importorskip("PIL.Image"), pytest.importorskip("transformers")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.ViTConfig(**sizes, image_size=128, patch_size=64)
        transformers.ViTModel(config, add_pooling_layer=False).save_pretrained(tmp_path / "vit")
    contents = []
    for number, mode in enumerate(("RGB", "L", "RGB")):
        file = io.BytesIO()
        pillow.effect_noise((140 + number, 90), 60).convert(mode).save(file, "PNG")
        contents.append(file.getvalue())
    run = a_run(tmp_path / "run", {"photo": contents}, FeatureOptions(image="photo", encoder=str(tmp_path / "vit")))
    model = standalone.Model(export(run, tmp_path / "model"))
    np.testing.assert_allclose(model.predict_proba(contents), run.config["expected"], atol=1e-5)
    assert "pillow" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "image-classification" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")


@pytest.mark.torture
def test_an_encoder(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    texts = {"text": ROWS["message"]}
    bert = str(write_tiny_bert(tmp_path / "bert"))
    run = a_run(tmp_path / "run", texts, FeatureOptions(text="text", encoder=bert))
    _, probs = alone(export(run, tmp_path / "model"), texts["text"])
    np.testing.assert_allclose(probs, run.config["expected"], atol=1e-5)


@pytest.mark.torture
def test_a_student_that_reads_texts(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    student = us.text(write_tiny_bert(tmp_path / "bert"), classes=2)().eval()
    _, probs = alone(export(us.Run(student, [], {}), tmp_path / "model"), ROWS["message"])
    np.testing.assert_allclose(probs, predict(student, as_rows(ROWS["message"], "x")), atol=1e-5)


def test_word_pieces_are_those_of_the_tokenizers_library(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import models, normalizers, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "re", "##set", "a", "##b", "o", "日", "σ", "##σ", "!", "-", "pin"]
    found = tokenizers.Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    found.normalizer, found.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    found.add_special_tokens(words[:4])
    found.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    found.save(str(tmp_path / "tokenizer.json"))
    found.enable_truncation(12)
    ours = standalone.tokenizer(tmp_path / "tokenizer.json", 12)
    assert isinstance(ours, standalone.WordPiece)
    rng = np.random.default_rng(0)
    pieces = [
        "reset",
        "RESET",
        "ab",
        "Ö",
        "日本",
        "ΣΣ",
        "!",
        "re-set",
        " ",
        "\n",
        "\u200b",
        "\ue000",
        "[SEP]",
        "pin",
        "x" * 120,
    ]
    assert ours("x" * 120) == found.encode("x" * 120).ids
    for _ in range(300):
        text = "".join(rng.choice(pieces, int(rng.integers(0, 9))))
        assert ours(text) == found.encode(text).ids, text


def test_dates_truth_values_and_gaps(tmp_path: Path) -> None:
    rows: dict[str, list[Any]] = {
        "age": [31.0, math.nan, 18.5, 40.0, 22.0],
        "ok": ["yes", "No", "", "yes", "no"],
        "joined": ["31.12.2024 23:45", "1.2.2025 00:00", "", "29.02.2024 12:00", "01.03.2024 08:15"],
    }
    options = FeatureOptions(columns=("age", "ok", "joined"))
    run = a_run(tmp_path / "run", rows, options, columns={"joined": "Joined on"})
    folder = export(run, tmp_path / "model")
    given = {"age": [31.0, None, 18.5, 40.0, 22.0], "ok": rows["ok"], "Joined on": rows["joined"]}
    np.testing.assert_allclose(alone(folder, given)[1], run.config["expected"].numpy(), atol=1e-5)
    given["Joined on"] = ["2024-12-31T23:45", "2025-02-01", None, "2024-02-29T13:00+01:00", "2024-03-01T08:15:00"]
    given["ok"] = [True, False, None, 1, "FALSE"]
    np.testing.assert_allclose(alone(folder, given)[1], run.config["expected"].numpy(), atol=1e-5)
    model = standalone.Model(folder)
    for name, cell in (("ok", "maybe"), ("Joined on", "12/31/2024")):
        with pytest.raises(ValueError, match=f"row 0: {name!r} holds {cell!r}; training had"):
            model.predict([{"age": 1.0, "ok": "no", "Joined on": None, name: cell}])
    # Rows count through all batches.
    good = {"age": 1.0, "ok": "no", "Joined on": None}
    for name, cell in (("ok", "maybe"), ("age", "x")):
        with pytest.raises(ValueError, match=f"row 65: {name!r} holds {cell!r}"):
            model.predict([good] * 65 + [good | {name: cell}])


def test_files_as_spreadsheets_write_them(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", ROWS, FeatureOptions(text="message", columns=("age", "job"), max_categories=9))
    folder = export(run, tmp_path / "model")
    message, age, job = ROWS.values()
    for delimiter, mark in ((",", "."), (";", ","), ("\t", ",")):
        with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.writer(file, delimiter=delimiter)
            writer.writerow(["No", "job", "age", "message; in short", "message"])
            writer.writerows(
                (0, *row)
                for row in zip(job, [f" {each}".replace(".", mark) for each in age], job, message, strict=True)
            )
        rows = standalone.read_csv(str(tmp_path / "rows.csv"), standalone.Model(folder).names)
        found = standalone.Model(folder).predict_proba(rows)
        np.testing.assert_allclose(found, run.config["expected"].numpy(), atol=1e-5)
    for cell in ("1,234", "1,2,3", "x"):
        with pytest.raises(ValueError, match=f"'age' holds {cell!r}, not a number"):
            standalone.as_number(cell, "age", 0)
    assert [standalone.as_number(cell, "age", 0) for cell in ("0,125", "-3,1415", "12,5")] == [0.125, -3.1415, 12.5]
    # Where a comma is the decimal mark, a point sets thousands apart, in columns of numbers alone.
    (tmp_path / "marks.csv").write_text("age;pay;job\n3.032;1.250,5;1.234\n7;-0,25;x\n", encoding="utf-8")
    rows = standalone.read_csv(str(tmp_path / "marks.csv"), ["age", "pay", "job"], ["age", "pay", "none"])
    assert [standalone.as_number(rows[0][name], name, 0) for name in ("age", "pay")] == [3032.0, 1250.5]
    assert rows[0]["job"] == "1.234" and standalone.as_number(rows[1]["pay"], "pay", 1) == -0.25
    (tmp_path / "other.csv").write_text("a;b\n1;2\n", encoding="utf-8")
    for name, said in (("other.csv", "no column 'message'"), ("none.csv", "No such file")):
        command = [sys.executable, str(folder / "predict.py"), str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr
