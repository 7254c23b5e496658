"""Options that several commands share: what the columns of the files are called, the classes, and the features."""

from collections.abc import Sequence
from typing import Annotated

import typer

from understudy.errors import UnderstudyError
from understudy.featurise.choose import FeatureOptions

FILES, FEATURES, TRAINING = "Files", "Features", "Training"

Column = Annotated[
    list[str] | None,
    typer.Option(
        help="A column by its name in your files, e.g. label=truth; repeat for more.",
        show_default=False,
        rich_help_panel=FILES,
        metavar="NAME=THEIRS",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        help="Their names in order (neg,pos), or how many, where the files do not show all.",
        show_default=False,
        rich_help_panel=FILES,
    ),
]
Votes = Annotated[
    str, typer.Option(help="How teacher_votes are weighed: majority or dawid_skene.", rich_help_panel=FILES)
]
Text = Annotated[str | None, typer.Option(help="The column of texts.", show_default=False, rich_help_panel=FEATURES)]
Image = Annotated[
    str | None,
    typer.Option(help="The column of images: paths or bytes.", show_default=False, rich_help_panel=FEATURES),
]
ImageSize = Annotated[
    int | None,
    typer.Option(
        min=1, help="Pixels per side. Without: as the first image.", show_default=False, rich_help_panel=FEATURES
    ),
]
Encoder = Annotated[
    str, typer.Option(help="For texts: tfidf, or an encoder's name or folder.", rich_help_panel=FEATURES)
]
Beside = Annotated[
    str | None,
    typer.Option(
        "--use",
        help="Columns of numbers and categories to use (age,job). Without: all, or none beside a text.",
        show_default=False,
        rich_help_panel=FEATURES,
    ),
]
Missing = Annotated[
    str, typer.Option(help="What an empty number means: error, or mean, that of training.", rich_help_panel=FEATURES)
]
Scale = Annotated[
    bool, typer.Option("--scale/--no-scale", help="Bring numbers to mean 0, deviation 1.", rich_help_panel=FEATURES)
]

Student = Annotated[str, typer.Option(help="A net and its sizes: linear, mlp:128,128, lenet…")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, …", show_default=False)]
Lr = Annotated[float, typer.Option(help="Learning rate.", rich_help_panel=TRAINING)]
BatchSize = Annotated[int, typer.Option(min=1, help="Rows per step.", rich_help_panel=TRAINING)]
Optimizer = Annotated[str, typer.Option(help="adam, adamw or sgd.", rich_help_panel=TRAINING)]
Schedule = Annotated[
    str, typer.Option(help="constant, cosine, step, papers-cifar or papers-imagenet.", rich_help_panel=TRAINING)
]
WeightDecay = Annotated[float, typer.Option(help="Weight decay.", rich_help_panel=TRAINING)]
Momentum = Annotated[float, typer.Option(help="For sgd.", rich_help_panel=TRAINING)]
Pretrain = Annotated[int, typer.Option(min=0, help="Epochs on gold alone, first.", rich_help_panel=TRAINING)]
Finetune = Annotated[int, typer.Option(min=0, help="Epochs on gold alone, at the end.", rich_help_panel=TRAINING)]
Patience = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Stop after so many epochs that are not better on the select rows.",
        show_default=False,
        rich_help_panel=TRAINING,
    ),
]
GoldRepeat = Annotated[
    int, typer.Option(min=1, help="Show each gold row so often per epoch.", rich_help_panel=TRAINING)
]
GoldWeight = Annotated[float, typer.Option(help="Multiplies the loss of gold rows.", rich_help_panel=TRAINING)]
Clip = Annotated[
    float | None, typer.Option(help="Bound on the gradient's norm.", show_default=False, rich_help_panel=TRAINING)
]


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


def class_count(asked: int | list[str] | None, seen: int) -> int:
    """How many outputs the student has: as many as were asked for, else as the files show."""
    return asked if isinstance(asked, int) else max(seen, 2)


def read_list(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def features(
    text: str | None = None, encoder: str = "tfidf", image: str | None = None, image_size: int | None = None,
    use: Sequence[str] | None = None, missing: str = "error", scale: bool = True,
) -> FeatureOptions:  # fmt: skip
    """What the options of this panel ask for."""
    return FeatureOptions(
        text=text, image=image, image_size=None if image_size is None else (image_size, image_size), encoder=encoder,
        scale=scale, columns=None if use is None else tuple(use), missing=missing,
    )  # fmt: skip


def gold_files(names: Sequence[str]) -> tuple[str | None, list[str]]:
    """The file of trusted labels, and those of answers to chosen batches, which are typed with a + before them."""
    chosen = [name[1:] for name in names if name.startswith("+")]
    trusted = [name for name in names if not name.startswith("+")]
    if len(trusted) > 1:
        raise UnderstudyError(
            f"--gold names {len(trusted)} files; put trusted labels into one, and a + before files of answers"
        )
    return (trusted[0] if trusted else None), chosen
