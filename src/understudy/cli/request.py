"""What a user asked of ``understudy train``, as values that JSON can hold, so that a run can be begun again.

Written to the run's folder (``request.json``) before training starts, with absolute paths.
"""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from understudy.cli.options import features, gold_files
from understudy.errors import UnderstudyError
from understudy.store.files import read_json, write_json
from understudy.tables.read import Examples, read_examples

FILE = "request.json"
FORMAT = 1


@dataclass(frozen=True)
class TrainRequest:
    out: str
    epochs: int
    gold: list[str]
    """A file of answers to a chosen batch begins with +."""
    pool: str | None
    test: str | None
    select: str | None
    columns: dict[str, str]
    classes: int | list[str] | None
    votes: str
    text: str | None
    image: str | None
    image_size: int | None
    encoder: str
    use: list[str] | None
    missing: str
    scale: bool
    method: str
    options: list[str]
    student: str
    lr: float
    batch_size: int
    optimizer: str
    schedule: str
    weight_decay: float
    momentum: float
    pretrain: int
    finetune: int
    patience: int | None
    gold_repeat: int
    gold_weight: float
    clip: float | None
    ema: bool
    checkpoint_every: int | None
    seed: int
    device: str | None

    def save(self) -> None:
        write_json(Path(self.out) / FILE, {"format": FORMAT, **asdict(self._absolute())})

    @classmethod
    def load(cls, folder: Path) -> "TrainRequest":
        path = folder / FILE
        if not path.exists():
            raise UnderstudyError(f"{folder} has no {FILE}; only what understudy train began can be resumed")
        stored = read_json(path)
        if not isinstance(stored, dict) or stored.pop("format", None) != FORMAT:
            raise UnderstudyError(f"{path} is of another format; train again in a new folder")
        if set(stored) != {field.name for field in fields(cls)}:
            raise UnderstudyError(f"{path} is damaged; restore it or train again in a new folder")
        return cls(**stored | {"out": str(folder)})

    def read(self) -> Examples:
        """The files it names."""
        trusted, chosen = gold_files(self.gold)
        return read_examples(
            gold=trusted,
            chosen=chosen,
            pool=self.pool,
            test=self.test,
            select=self.select,
            columns=self.columns,
            classes=self.classes,
            votes=self.votes,
            features=features(self.text, self.encoder, self.image, self.image_size, self.use, self.missing, self.scale),
        )

    def settings(self) -> dict[str, Any]:
        """What the report tells of it."""
        given = {
            "Gold file": " ".join(self.gold) or None,
            "Pool file": self.pool,
            "Test file": self.test,
            "Select file": self.select,
            "Text": None if self.text is None else f"{self.text}, {self.encoder}",
            "Image": self.image,
        }
        return {
            **{name: value for name, value in given.items() if value is not None},
            "Student": self.student,
            "Method": " ".join([self.method, *self.options]),
            "Optimizer": f"{self.optimizer}, {self.lr:g}, {self.schedule}, batches of {self.batch_size}",
            "Seed": self.seed,
        }

    def _absolute(self) -> "TrainRequest":
        def whole(name: str | None) -> str | None:
            return None if name is None else str(Path(name).absolute())

        gold = [f"+{whole(name[1:])}" if name.startswith("+") else f"{whole(name)}" for name in self.gold]
        files = {name: whole(getattr(self, name)) for name in ("pool", "test", "select")}
        return TrainRequest(**asdict(self) | files | {"gold": gold, "out": f"{whole(self.out)}"})
