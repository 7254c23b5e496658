"""What is left open on the command line, filled in with what suits the features.

student, recipe = suited("auto", examples, recipe)      # "linear", {"optimizer": "lbfgs", …}
recipe, length = timed(build, examples, recipe)          # where gold says how long
optimizer_fact(recipe)                                   # as a report tells of it
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from torch import nn

from understudy.cli.shared import SUITED
from understudy.cli.students import reads_texts, text_student
from understudy.features.embeddings import Encoded
from understudy.inference.passes import usable_device
from understudy.io.read import Examples
from understudy.training.defaults import LINEAR, NET, fill_defaults, prefers_linear, resolve_options
from understudy.training.lbfgs import ITERATIONS
from understudy.training.options import AUTO, LBFGS, TrainingOptions

Build = Callable[[], nn.Module]


def suited(student: str, examples: Examples, recipe: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The student by its name, and the recipe: what was typed, else what suits the features; ``epochs`` may be auto."""
    defaults: dict[str, Any] = {each.name: each.default for each in fields(TrainingOptions) if each.name in SUITED}
    if reads_texts(student):
        suitable = text_student(student, max(examples.classes, 2)).options(recipe["device"])
        return student, fill_in(fill_in(recipe, suitable), defaults)
    if student == AUTO:
        frozen = any(isinstance(part, Encoded) for part in examples.featuriser.parts)
        first = examples.gold if examples.pool is None else examples.pool
        assert first is not None
        student = LINEAR if prefers_linear(first.rows, frozen=frozen) else NET
    return student, fill_in(fill_defaults(student, recipe), defaults)


def timed(build: Build, examples: Examples, recipe: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The recipe with a number of epochs, and what a run's config tells of its choice on gold."""
    asked = {**recipe, "device": usable_device(recipe["device"])} | ({"ema": None} if "ema" in recipe else {})
    resolved, choice = resolve_options(build, examples.gold, examples.pool, asked, select=examples.select)
    return {**recipe, "epochs": resolved.epochs}, choice


def fill_in(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The options, and the defaults of those that were left out (None)."""
    return {**options, **{name: value for name, value in defaults.items() if options.get(name) is None}}


def optimizer_fact(recipe: Mapping[str, Any]) -> str:
    """How a report tells of it."""
    if recipe["optimizer"] == LBFGS:
        return f"{LBFGS}, all rows at once, at most {recipe['epochs']} × {ITERATIONS} steps"
    return f"{recipe['optimizer']}, {recipe['lr']:g}, {recipe['schedule']}, batches of {recipe['batch_size']}"


def length_fact(length: Mapping[str, Any]) -> dict[str, str]:
    """How many epochs were tried, where gold had a say."""
    chosen = length.get("chosen_epochs")
    if chosen is None:
        return {}
    tried = ", ".join(f"{epochs}: {loss:.3f}" for epochs, loss in chosen["losses"].items())
    return {"Epochs": f"{chosen['epochs']}, by the loss of gold rows left out ({tried})"}
