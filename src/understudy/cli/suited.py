"""What is left open on the command line, filled in with what suits the features.

student, recipe = suited("auto", examples, recipe)      # "linear", {"optimizer": "lbfgs", …}
optimizer_fact(recipe)                                   # as a report tells of it
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from understudy.cli.shared import SUITED
from understudy.cli.students import reads_texts, text_student
from understudy.featurise.encoder import Encoded
from understudy.tables.read import Examples
from understudy.training.defaults import LINEAR, NET, fill_in, recipe_for, suits_linear
from understudy.training.lbfgs import ITERATIONS
from understudy.training.recipe import AUTO, LBFGS, Recipe


def suited(student: str, examples: Examples, recipe: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The student by its name, and the recipe with nothing left open: what was typed, else what suits the features."""
    defaults: dict[str, Any] = {each.name: each.default for each in fields(Recipe) if each.name in SUITED}
    if reads_texts(student):
        suitable = text_student(student, max(examples.classes, 2)).options(recipe["device"])
        return student, fill_in(fill_in(recipe, suitable), defaults)
    parts = [part for part in (examples.pool, examples.gold) if part is not None]
    if student == AUTO:
        frozen = any(isinstance(part, Encoded) for part in examples.featuriser.parts)
        student = LINEAR if suits_linear(parts[0].rows, frozen=frozen) else NET
    # A learning rate or a schedule says that it is for steps on batches.
    of_steps = any(recipe[name] is not None for name in ("lr", "schedule", "clip"))
    optimizer = recipe["optimizer"] or ("adam" if of_steps else None)
    size = recipe["batch_size"] or defaults["batch_size"]
    suitable = recipe_for(student, sum(map(len, parts)), optimizer=optimizer, batch_size=size)
    return student, fill_in(fill_in(recipe, suitable), defaults)


def optimizer_fact(recipe: Mapping[str, Any]) -> str:
    """How a report tells of it."""
    if recipe["optimizer"] == LBFGS:
        return f"{LBFGS}, all rows at once, at most {recipe['epochs']} × {ITERATIONS} steps"
    return f"{recipe['optimizer']}, {recipe['lr']:g}, {recipe['schedule']}, batches of {recipe['batch_size']}"
