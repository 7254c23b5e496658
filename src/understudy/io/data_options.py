"""How files are read for a training: names of columns, classes, features. One table for commands and request files.

    data = DataOptions(text="review", label="checked", teacher="llm")
    examples = data.read(["gold.csv", "+batch.csv"], pool="pool.csv")           # files, or tables in memory

The command line makes its flags of the fields (``cli/shared.py``); this file loads without PyTorch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from understudy.errors import UnderstudyError, shown
from understudy.store.option_fields import option, read_pairs, typed_option

if TYPE_CHECKING:
    from understudy.io.read import Examples

FILES, FEATURES = "Files", "Features"
_files, _features = (partial(typed_option, panel=panel) for panel in (FILES, FEATURES))
# More classes than this are given, not guessed.
MANY_CLASSES = 10_000


def read_mapping(texts: Sequence[str] | None) -> dict[str, str]:
    """``["label=truth"]`` as ``{"label": "truth"}``."""
    return read_pairs(texts, "column", "NAME=THEIRS; write e.g. --column label=truth")


def read_classes(text: str | None) -> int | list[str] | None:
    """``"3"`` as a count, ``"neg,pos"`` as names."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) > 1:
        return names
    if not text.strip().isdecimal() or int(text) < 2:
        raise UnderstudyError(f"--classes {text!r}: write how many there are (2 or more), or their names like neg,pos")
    return int(text)


def read_types(text: str | None) -> dict[str, str]:
    """``"zip=text,age=number"`` as a mapping."""
    return read_pairs(read_list(text), "types", "NAME=text, NAME=number or NAME=date; e.g. --types zip=text", last=True)


def read_list(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def is_batch(gold: Any) -> bool:
    """Whether it names a file with the labels of a chosen batch."""
    return isinstance(gold, str) and gold.startswith("+")


def pool_file(gold: Sequence[Any], pool: Any) -> Any:
    """The file with the pool's rows: that of gold where no other is named."""
    files = [each for each in (pool, *gold) if each is not None and not is_batch(each)]
    if not files:
        raise UnderstudyError("there are no rows; name their file by --pool")
    return files[0]


@dataclass(frozen=True)
class ColumnOptions:
    """Names of the files' columns."""

    columns: dict[str, str] | None = option(
        None, help="A column by its name in your files, e.g. label=truth; repeat for more.", typed=list[str] | None,
        flag="column", metavar="NAME=THEIRS", read=read_mapping, panel=FILES,
    )  # fmt: skip
    label: str | None = _files(None, help="The column of your own labels (label).")
    teacher: str | list[str] | None = option(
        None, help="The column of the teacher's labels; several (ana,ben): the votes of so many.", typed=str | None,
        read=read_list, panel=FILES,
    )  # fmt: skip
    id: str | None = _files(None, help="The column of ids (id).")

    @property
    def mapping(self) -> dict[str, str]:
        """Our names of columns to theirs, of all options that name one."""
        teachers = [self.teacher] if isinstance(self.teacher, str) else self.teacher or []
        votes = {f"teacher_vote_{name}": name for name in teachers} if len(teachers) > 1 else {}
        single = {"label": self.label, "id": self.id, "teacher": teachers[0] if len(teachers) == 1 else None}
        named = votes | {ours: theirs for ours, theirs in single.items() if theirs is not None}
        for ours in named.keys() & (self.columns or {}).keys():
            if named[ours] != (self.columns or {})[ours]:
                raise UnderstudyError(f"{(self.columns or {})[ours]!r} and {named[ours]!r} are both {ours!r}; name one")
        return {**(self.columns or {}), **named}


@dataclass(frozen=True)
class DataOptions(ColumnOptions):
    """Names of the files' columns, the classes, and the features."""

    classes: int | list[str] | None = option(
        None, help="Their names in order (neg,pos), or their number, where the files do not show all.",
        typed=str | None, read=read_classes, panel=FILES,
    )  # fmt: skip
    votes: str = _files("majority", help="Model that combines teacher_votes: majority, dawid_skene or gold.")
    text: str | None = _features(None, help="The column of texts.")
    encoder: str = _features(
        "auto", help="Vectors of texts or images: an encoder's name or folder; none; auto: one that is installed."
    )
    small: bool = _features(
        False, help="Only the label sources see the encoder; the student takes TF-IDF or pixels, and runs without it."
    )
    image: str | None = _features(None, help="The column of images: paths or bytes.")
    image_size: int | None = _features(None, help="Pixels per side. Default: as the first image, at most 64.", least=1)
    use: list[str] | None = option(
        None, help="Columns of numbers and categories to use (age,job). Default: all, or none beside a text.",
        typed=str | None, read=read_list, panel=FEATURES,
    )  # fmt: skip
    types: dict[str, str] | None = option(
        None, help="Types of columns where they are ambiguous: zip=text,age=number,day=date,until=date:%d/%m/%Y.",
        typed=str | None, read=read_types, panel=FEATURES,
    )  # fmt: skip
    missing: str = _features(
        "median", help="A missing number: median (of the training rows) beside a column that marks it, or error."
    )
    scale: bool = _features(True, help="Standardise numbers to mean 0, standard deviation 1.", flag="scale/--no-scale")

    def read(self, gold: Sequence[Any], *, both: bool = False, needs_pool: bool = False, **files: Any) -> "Examples":
        """``gold``: a file or table, and files of labels of chosen batches (``+FILE``); ``pool`` (without: the gold
        file's rows without a label), ``test``, ``select``. ``both``: by TF-IDF or as pixels too, beside an
        encoder's vectors. ``needs_pool``: an error without one."""
        from understudy.features.featuriser import FeatureOptions
        from understudy.io.read import read_examples

        chosen = [name[1:] for name in gold if is_batch(name)]
        trusted = [name for name in gold if not is_batch(name)]
        if len(trusted) > 1:
            raise UnderstudyError(f"--gold names {len(trusted)} files; put trusted labels into one, + before answers")
        size = None if self.image_size is None else (self.image_size, self.image_size)
        features = FeatureOptions(
            text=self.text, image=self.image, image_size=size, encoder=self.encoder, scale=self.scale,
            columns=None if self.use is None else tuple(self.use), missing=self.missing, types=self.types or {},
        )  # fmt: skip
        examples = read_examples(
            gold=trusted[0] if trusted else None, chosen=chosen, columns=self.mapping, classes=self.classes,
            votes=self.votes, features=features, both=both, small=self.small, **files,
        )  # fmt: skip
        if needs_pool and examples.pool is None:
            held = f"{trusted[0]} has no row with a teacher's label alone"
            raise UnderstudyError(f"{held}, so there is no pool; name its file by --pool, or the column by --teacher")
        if self.text is None and examples.text is not None:
            print(f"Text: column {examples.text!r}, the only one with words in it")
        for note in examples.notes:
            print(shown(note))
        return examples

    def for_student(self, student: str) -> "DataOptions":
        """With texts left as they are where the student reads them itself."""
        if not student.startswith("hf:"):
            return self
        if self.encoder not in ("auto", "none"):
            both = f"--student {student} reads the texts itself, and so does --encoder {self.encoder}"
            raise UnderstudyError(f"{both}; leave one of them out")
        if self.text is None:
            raise UnderstudyError(f"--student {student} reads texts; name their column by --text")
        return replace(self, encoder="student")

    def count_classes(self, examples: "Examples") -> int:
        """The student's number of classes: as given, else as in the files."""
        if isinstance(self.classes, int):
            return self.classes
        if examples.classes > MANY_CLASSES:
            many, flag = f"{examples.classes:,} classes", f"--classes {examples.classes}"
            raise UnderstudyError(f"the largest label makes {many}; correct it, or confirm the number: {flag}")
        return max(examples.classes, 2)
