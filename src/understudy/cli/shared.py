"""What several commands share: options, each from the table that owns it.

    @takes_options()
    def command(out: Annotated[Path, typer.Option(…)], data: DataOptions, **recipe: Any) -> None: ...

A field of such a table is an option of the command line. ``data`` brings what the files' columns are called, the
classes and the features; ``**recipe`` the options of ``training/options.py`` that can be typed, under the names that
``us.train`` gives them. Help is shown, and a mistake in the arguments refused, before anything that takes time is
loaded: what a command works with is imported where it works.
"""

import functools
import gc
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.errors import UnderstudyError
from understudy.store.option_fields import known
from understudy.training.options import AUTO, TrainingOptions

if TYPE_CHECKING:
    from understudy.io.read import Examples

FILES, FEATURES = "Files", "Features"
# A student of more outputs is asked for, not guessed.
MANY_CLASSES = 10_000

GOLD = typer.Option(help="Trusted labels; again with +FILE for the answers to a chosen batch.", show_default=False)
TEST = typer.Option(help="Rows that are only looked at.", show_default=False, rich_help_panel=FILES)
SELECT = typer.Option(help="Gold rows that pick an epoch.", show_default=False, rich_help_panel=FILES)
RunFolder = Annotated[Path, typer.Argument(help="The folder of a finished training.", show_default=False)]
Selected = Annotated[bool, typer.Option("--selected", help="The student of the epoch chosen on gold.")]
Student = Annotated[
    str,
    typer.Option(
        help="A net and its sizes: linear, mlp:128,128, lenet…; hf:FOLDER, a pretrained net that reads --text; or "
        "auto: what suits the features."
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes of one thread each; one per core.", show_default=False)
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Work on Ray instead: local (a cluster on this machine), auto (the one it is part of) or HOST:PORT.",
        show_default=False,
        metavar="ADDRESS",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
Track = Annotated[
    list[str] | None,
    typer.Option(
        help="Send training to a tracker: tensorboard (files in --out), mlflow or wandb; repeat for more.",
        show_default=False,
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="A column by its name in your files, e.g. label=truth; repeat for more.",
        show_default=False,
        rich_help_panel=FILES,
        metavar="NAME=THEIRS",
    ),
]


@contextmanager
def loading() -> Iterator[None]:
    """While what a command works with is loaded: none of it is garbage, and looking for some takes half a second.

    What was loaded is not looked at again later either. Where PyTorch was there before, so is a process with garbage of
    its own, which is left as it is.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def where_to_run(workers: int | None, ray: str | None) -> dict[str, Any]:
    """The arguments ``workers`` or ``executor`` of a function that runs many things."""
    if ray is None:
        return {"workers": workers}
    from understudy.parallel.ray_tasks import RayTasks

    return {"executor": RayTasks(ray, workers=workers)}


def read_mapping(texts: Sequence[str] | None) -> dict[str, str]:
    """``["label=truth"]`` as ``{"label": "truth"}``."""
    mapping: dict[str, str] = {}
    for text in texts or []:
        ours, equals, theirs = (part.strip() for part in text.partition("="))
        if not (ours and equals and theirs):
            raise UnderstudyError(f"--column {text!r} is not like NAME=THEIRS; write e.g. --column label=truth")
        if ours in mapping:
            raise UnderstudyError(f"--column names {ours!r} twice; name it once")
        mapping[ours] = theirs
    return mapping


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


def read_epochs(text: str) -> int | None:
    """A number, or ``auto``: what suits."""
    if str(text).strip().lower() == AUTO:
        return None
    if not str(text).strip().isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is neither auto nor a whole number, at least 1")
    return int(text)


def read_types(text: str | None) -> dict[str, str]:
    """``"zip=text,age=number"`` as a mapping."""
    types: dict[str, str] = {}
    for part in read_list(text) or []:
        name, equals, kind = (word.strip() for word in part.rpartition("="))
        if not (name and equals and kind in ("text", "number")):
            raise UnderstudyError(f"--types {part!r} is not like NAME=text or NAME=number; write e.g. --types zip=text")
        types[name] = kind
    return types


def read_list(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _option(
    kind: Any, default: Any, panel: str, help: str, *names: str, read: Callable[[Any], Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A field that is typed as ``kind``; ``read`` makes its value from the text."""
    shown = typer.Option(*names, help=help, rich_help_panel=panel, show_default=default is not None, **more)
    return {"typed": Annotated[kind, shown], "default": default, "read": read or (lambda value: value)}


@dataclass(frozen=True)
class DataOptions:
    """What the columns of the files are called, the classes, and the features."""

    columns: dict[str, str] = field(metadata={"typed": Column, "default": None, "read": read_mapping})
    classes: int | list[str] | None = field(metadata=_option(
        str | None, None, FILES, "Their names in order (neg,pos), or how many, where the files do not show all.",
        read=read_classes,
    ))  # fmt: skip
    votes: str = field(
        metadata=_option(str, "majority", FILES, "How teacher_votes are weighed: majority, dawid_skene or gold.")
    )
    text: str | None = field(metadata=_option(str | None, None, FEATURES, "The column of texts."))
    encoder: str = field(
        metadata=_option(
            str, "tfidf", FEATURES, "For texts: tfidf, or an encoder's name or folder. With --student hf:FOLDER: none."
        )
    )
    image: str | None = field(metadata=_option(str | None, None, FEATURES, "The column of images: paths or bytes."))
    image_size: int | None = field(metadata=_option(
        int | None, None, FEATURES, "Pixels per side. Without: as the first image.", min=1
    ))  # fmt: skip
    use: list[str] | None = field(metadata=_option(
        str | None, None, FEATURES,
        "Columns of numbers and categories to use (age,job). Without: all, or none beside a text.", read=read_list,
    ))  # fmt: skip
    types: dict[str, str] = field(metadata=_option(
        str | None, None, FEATURES, "What columns hold, where it is not plain: zip=text,age=number.", read=read_types,
    ))  # fmt: skip
    missing: str = field(
        metadata=_option(str, "error", FEATURES, "What an empty number means: error, or mean, that of training.")
    )
    scale: bool = field(
        metadata=_option(bool, True, FEATURES, "Bring numbers to mean 0, deviation 1.", "--scale/--no-scale")
    )

    def read(self, gold: Sequence[str], **files: Any) -> "Examples":
        """The files: ``gold`` as typed, and ``pool``, ``test`` and ``select`` where there are any."""
        from understudy.features.featuriser import FeatureOptions
        from understudy.io.read import read_examples

        chosen = [name[1:] for name in gold if name.startswith("+")]
        trusted = [name for name in gold if not name.startswith("+")]
        if len(trusted) > 1:
            raise UnderstudyError(
                f"--gold names {len(trusted)} files; put trusted labels into one, and a + before files of answers"
            )
        size = None if self.image_size is None else (self.image_size, self.image_size)
        features = FeatureOptions(
            text=self.text, image=self.image, image_size=size, encoder=self.encoder, scale=self.scale,
            columns=None if self.use is None else tuple(self.use), missing=self.missing, types=self.types,
        )  # fmt: skip
        examples = read_examples(
            gold=trusted[0] if trusted else None, chosen=chosen, columns=self.columns, classes=self.classes,
            votes=self.votes, features=features, **files,
        )  # fmt: skip
        if self.text is None and examples.text is not None:
            typer.echo(f"Text: column {examples.text!r}, the only one with words in it")
        return examples

    def for_student(self, student: str) -> "DataOptions":
        """With texts left as they are where the student reads them itself."""
        if not student.startswith("hf:"):
            return self
        if self.encoder not in ("tfidf", "none"):
            raise UnderstudyError(
                f"--student {student} reads the texts itself, and --encoder {self.encoder} would read them for "
                "another; leave one of them out"
            )
        if self.text is None:
            raise UnderstudyError(f"--student {student} reads texts; name their column by --text")
        return replace(self, encoder="none")

    def outputs(self, examples: "Examples") -> int:
        """How many classes the student tells apart: as many as were asked for, else as the files show."""
        if isinstance(self.classes, int):
            return self.classes
        if examples.classes > MANY_CLASSES:
            raise UnderstudyError(
                f"the largest label makes {examples.classes:,} classes; correct it, or say that there are so many: "
                f"--classes {examples.classes}"
            )
        return max(examples.classes, 2)


SUITED = ("epochs", "batch_size", "lr", "optimizer", "weight_decay", "schedule", "warmup", "clip", "autocast")
"""Options that follow from the student and the number of rows where they are not typed."""

RECIPE_FIELDS = {
    known(each).flag or each.name: each for each in fields(TrainingOptions) if known(each).typed is not None
}
"""The options of a training that can be typed, by the name they are typed as."""


def takes_options(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of its ``data`` and ``**recipe``, without those named and those it has itself."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command)
        own = [each for name, each in signature.parameters.items() if name not in ("data", "recipe")]
        left_out = {*without, *signature.parameters}
        data = {each.name: each for each in fields(DataOptions)}
        recipe = {name: each for name, each in RECIPE_FIELDS.items() if name not in left_out}
        shown = [_data_parameter(each) for name, each in data.items() if name not in left_out]
        shown += [] if "recipe" not in signature.parameters else [_recipe_parameter(*each) for each in recipe.items()]

        @functools.wraps(command)
        def wrapped(**typed: Any) -> None:
            values = {name: typed.pop(name, each.metadata["default"]) for name, each in data.items()}
            read = DataOptions(**{name: data[name].metadata["read"](value) for name, value in values.items()})
            options = {each.name: typed.pop(name) for name, each in recipe.items() if name in typed}
            command(**typed, data=read, **options)

        every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shown)]
        every.sort(key=lambda each: each.default is not inspect.Parameter.empty)  # what must be given comes first
        wrapped.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
        return wrapped

    return decorate


def _data_parameter(each: "Field[Any]") -> inspect.Parameter:
    kind, default = each.metadata["typed"], each.metadata["default"]
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _recipe_parameter(name: str, each: "Field[Any]") -> inspect.Parameter:
    option = known(each)
    default = inspect.Parameter.empty if each.default is MISSING else each.default
    default = False if option.typed is bool and default is None else default
    typed, text = (
        (option.typed | None, f"{option.help} Without: what suits.") if name in SUITED else (option.typed, option.help)
    )
    default = None if name in SUITED else default
    shown = typer.Option(
        f"--{name.replace('_', '-')}",
        help=text,
        min=int(option.least) if option.integer and option.least is not None and name != "epochs" else None,
        show_default=default is not None,
        rich_help_panel=option.panel,
        parser=read_epochs if name == "epochs" else None,
        metavar="N|auto" if name == "epochs" else None,
    )
    kind: Any = Annotated[typed, shown]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
