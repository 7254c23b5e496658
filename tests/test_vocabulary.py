"""The field's words: none of the private ones of earlier drafts in code, help, messages or documents.

python tests/test_vocabulary.py src/understudy/llm docs/ask.md          # lists what is left there
"""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Whole words, also as a part of a snake_case name; in code, help, messages and documents alike.
WORDS = {
    r"told|tells? (?:of|the user|you|who)": "options, given, reported",
    r"said|asked": "answer, label, request; predicted",
    r"witness(?:es)?|testimon\w+|testif\w+": "source, base model, out-of-fold predictions",
    r"believed": "weight",
    r"settled|suited|suits|suitable|what suits": "resolved options; default: chosen automatically",
    r"standing": "evaluation, labelling state",
    r"bought|buys|dear": "gain per label; gets; expensive",
    r"parted|held_out_of|ask_unseen|_unseen": "split; cross-fit",
    r"(?:teacher|everybody|student|nobody|user|one|llm)['\u2019]?s (?:own |soft |best )?words?": "label",
    r"by heart": "memorises",
    r"names? the right class|named rightly|is right on": "accuracy",
    r"nobody|somebody|everybody|whoever|anybody": "name the thing or the person",
    r"surely": "significantly",
    r"rather": "suggested label",
    r"called so|are so": "predicted, actual",
    r"the bits of|with its bits": "bit-identical to",
    r"manner|crew|hire|dismiss": "request options; worker pool start, stop",
    r"exact to \u00b1": "95% CI ±",
    r"only (?:ever )?looked at|pick(?:s)? an epoch": "test set; validation set",
    r"bears? wrong|memory of gold|knows them": "robust to label noise; memorised",
    r"can say|can tell|worth [\d,{]+ clean": "unknown; treated as ground truth; effective clean labels",
    r"who answered what": "label history",
}
# In code alone: words that are good English elsewhere.
CODE = {
    r"(?<![\w.])once\(|\bdef once\b|import once\b": "on_rank_zero, cached",
    r"\bestimates\(\)|\.estimates\b": "calibration",
    r"\bas_words\b|\bnaming\b|\bNaming\b": "class names",
    r"\.whole\b|\bwhole=": "full_batch",
    r"\.tells\b|\btells\b ?=": "an argument",
}
MODULES = "words answers standing bought effect length unseen packed parted suited settled asked told"


def _patterns(path: Path) -> dict[str, str]:
    words = {rf"(?<![^\W_])(?:{word})(?![^\W_])": cure for word, cure in WORDS.items()}
    return words | (CODE if path.suffix == ".py" else {})


ANY = re.compile(rf"(?i)(?<![^\W_])(?:{'|'.join(WORDS)})(?![^\W_])|{'|'.join(CODE)}")


def _found(path: Path) -> list[str]:
    if ANY.search(path.read_text(encoding="utf-8")) is None:  # one pass over most files
        return []
    patterns = {
        re.compile(f"(?i:{word})" if word not in CODE else word): cure for word, cure in _patterns(path).items()
    }
    return [
        f"{path.relative_to(ROOT)}:{number}: {match.group()!r} ({cure}): {line.strip()[:100]}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for pattern, cure in patterns.items()
        for match in pattern.finditer(line)
    ]


def _files(*places: Path) -> list[Path]:
    every = [path for place in places for path in ([place] if place.is_file() else sorted(place.rglob("*")))]
    return [path for path in every if path.suffix in (".py", ".pyi", ".md", ".html", ".js", ".jinja")]


@pytest.mark.parametrize("place", ["src/understudy", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_no_private_word_is_left(place: str) -> None:
    found = [line for path in _files(ROOT / place) for line in _found(path)]
    assert not found, f"{len(found)} private words:\n" + "\n".join(found[:50])


def test_no_module_has_a_private_name() -> None:
    names = [path for path in (ROOT / "src").rglob("*.py") if path.stem in MODULES.split()]
    assert not names


if __name__ == "__main__":
    lines = [line for path in _files(*(Path(each).resolve() for each in sys.argv[1:])) for line in _found(path)]
    print("\n".join(lines))
    print(len(lines))
