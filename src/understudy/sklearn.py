"""Understudy as a scikit-learn classifier: X and y are gold; the pool is given to the constructor or to ``fit``.

    classifier = UnderstudyClassifier(method="slam", pool=us.Pool(X_pool, teacher_pool), epochs=30)
    classifier.fit(X, y, teacher=probs_on_X).predict(X_new)
    GridSearchCV(classifier, {"lower_bound": [0.5, 0.7]}, n_jobs=2).fit(X, y, teacher=probs_on_X)

It is thin: ``fit`` is one call of ``us.train`` and gives its bits; ``run_`` is what that returned. Two traps:

- Cross-validation cuts whatever has as many rows as X. That is right for ``teacher``, which speaks of X's rows, and
  wrong for a pool: ``fit`` refuses one of that size, and the constructor's ``pool=`` is never cut (nor copied).
- A Pipeline transforms X alone. For a pool to be transformed too, hand it to ``fit`` as ``X_pool`` and say
  ``Pipeline(…, transform_input=["X_pool"])`` (with scikit-learn's metadata routing enabled).
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from torch import nn

from understudy import models
from understudy.data.examples import Gold, Pool
from understudy.data.rows import Rows
from understudy.errors import UnderstudyError, UnknownOption
from understudy.labels.forms import Hard, Labels, as_labels, read_labels
from understudy.methods import METHODS
from understudy.objective import Objective
from understudy.store.arrow import Array, as_column, as_frame
from understudy.store.option_fields import check_names, with_parameters
from understudy.training.automatic_options import LINEAR, NET, prefers_linear, row_shape
from understudy.training.callbacks import Callback
from understudy.training.options import option_names, option_parameters
from understudy.training.train import train

__all__ = ["UnderstudyClassifier"]

# A run without a folder has no checkpoints, and its moving average would not be used. None: the default of us.train,
# which for some options depends on the student.
RECIPE = {
    each.name: each.replace(default=None)
    for each in option_parameters(option_names(leave_out=("ema", "checkpoint_every")))
}


class BadInput(UnderstudyError, ValueError):
    """scikit-learn's callers expect a ValueError."""


class UnderstudyClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A student trained on gold (X, y) and a pool of imperfect labels.

    ``student``: a module, a function that builds one, a name such as "mlp:64" or "linear"; None: chosen by X's shape.
    ``method``: a name of ``us.METHODS``, whose options are parameters too (``lower_bound=0.7``), or an objective.
    ``pool``: ``us.Pool(x, teacher)``. ``classes``: every label in the order of the teacher's columns; None: those in
    y, sorted. The other parameters are those of ``us.train``; None: its defaults.
    """

    @partial(with_parameters, shown=list(RECIPE.values()))
    def __init__(
        self, student: nn.Module | Callable[[], nn.Module] | str | None = None, method: str | Objective = "slam", *,
        pool: Pool | None = None, classes: Sequence[Any] | None = None, callbacks: Sequence[Callback] = (),
        progress: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.student, self.method, self.pool, self.classes = student, method, pool, classes
        self.callbacks, self.progress = callbacks, progress
        for name, each in RECIPE.items():
            setattr(self, name, options.pop(name, each.default))
        self._check_names(options)
        for name, value in options.items():
            setattr(self, name, value)

    def fit(
        self, X: Any, y: Any, *, teacher: Any = None, X_pool: Any = None, teacher_pool: Any = None
    ) -> "UnderstudyClassifier":
        """``teacher``: the teacher's labels of X's rows, if it was not trained on them. ``X_pool`` and
        ``teacher_pool``: the pool, where the constructor has none.

        Teacher labels are probabilities in the order of ``classes_``, a frame of them by class name, labels as in y
        (None, NaN or −1: none), or one of ``us.Hard``, ``us.TopK`` and ``us.Votes`` over class numbers.
        """
        objective = self._objective()
        x, y = self._checked(X, y=y)
        check_classification_targets(y)
        self.classes_ = self._classes(y)
        numbers = self._label_numbers(y, "y", missing=False)
        labels = None if teacher is None else self._labels(teacher, "teacher")
        gold = Gold(x, numbers, labels, classes=tuple(map(str, self.classes_)), name="X")
        pool = self._pool(X_pool, teacher_pool, rows=len(numbers))
        recipe: dict[str, Any] = {name: value for name in RECIPE if (value := getattr(self, name)) is not None}
        self.run_ = train(
            self._student(gold.rows if pool is None else pool.rows), gold, pool, objective, progress=self.progress,
            callbacks=self.callbacks, **recipe,
        )  # fmt: skip
        return self

    def predict_proba(self, X: Any) -> Array:
        """``(n, C)``, in the order of ``classes_``."""
        check_is_fitted(self)
        return self.run_.predict(self._checked(X)).numpy()

    def predict(self, X: Any) -> Array:
        check_is_fitted(self)
        predicted: Array = self.classes_[self.predict_proba(X).argmax(1)]
        return predicted

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Also those of the method's options that were given."""
        params: dict[str, Any] = super().get_params(deep)
        return params | self._given_options()

    def set_params(self, **params: Any) -> Self:
        """Any option of the method too. Another method takes none of the options that only the former had."""
        if "method" in params:
            before = self._method_options()
            self.method = params.pop("method")
            for name in before - self._method_options():
                self.__dict__.pop(name, None)
        options = self._method_options()
        for name in options & params.keys():
            setattr(self, name, params.pop(name))
        try:
            self._check_names(name.partition("__")[0] for name in params)
        except UnknownOption as error:
            raise BadInput(error) from error
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _method_options(self) -> set[str]:
        """What the method takes, beside what every training does."""
        if not isinstance(self.method, str) or self.method not in METHODS:
            return set()
        return set(inspect.signature(METHODS[self.method]).parameters) - RECIPE.keys()

    def _check_names(self, given: Iterable[str]) -> None:
        names = [*self._get_param_names(), *sorted(self._method_options())]
        check_names(given, names, f"UnderstudyClassifier(method={self.method!r})")

    def _given_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._method_options() if name in vars(self)}

    def _objective(self) -> Objective:
        if isinstance(self.method, Objective):
            return self.method
        if self.method not in METHODS:
            raise BadInput(f"method={self.method!r} is unknown; use one of {', '.join(METHODS)}, or an objective")
        for name in RECIPE.keys() & inspect.signature(METHODS[self.method]).parameters.keys():
            if getattr(self, name) is not None:
                cure = f"pass method=us.{self.method}(…), and {name}= is the training's"
                raise BadInput(f"{name}= is an option of {self.method} and of the training; {cure}")
        objective: Objective = METHODS[self.method](**self._given_options())
        return objective

    def _checked(self, X: Any, **with_y: Any) -> Any:
        """X as scikit-learn checks it, texts as they are. ``y=`` makes it the X that all others are held to; then both
        come back."""
        if _is_text(X):
            if not with_y:
                return list(X)
            y = column_or_1d(with_y["y"], warn=True)
            check_consistent_length(X, y)
            return list(X), y
        # Numbers for our own nets; a user's net may take anything, e.g. token ids.
        ours = self.student is None or isinstance(self.student, str)
        return validate_data(
            self, X, **with_y, reset=bool(with_y), accept_sparse="csr", allow_nd=True,
            dtype=[np.float64, np.float32] if ours else "numeric",
        )  # fmt: skip

    def _classes(self, y: Array) -> Array:
        """The classes in their order."""
        classes = np.unique(y) if self.classes is None else np.asarray(self.classes)
        if len(classes) < 2:
            raise BadInput(f"y holds one class only ({classes.tolist()[0]!r}); a classifier needs two or more")
        if len(set(classes.tolist())) < len(classes):
            raise BadInput(f"classes={classes.tolist()} names a class twice; name each once")
        return classes

    def _pool(self, X_pool: Any, teacher_pool: Any, *, rows: int) -> Pool | None:
        if X_pool is None and teacher_pool is None:
            return self._own_pool()
        if self.pool is not None:
            raise BadInput("there is a pool in the constructor and another in fit; give one of them")
        if X_pool is None or teacher_pool is None:
            raise BadInput("X_pool and teacher_pool go together: the pool's rows and their teacher labels")
        x = self._checked(X_pool)
        if (count := x.shape[0] if hasattr(x, "shape") else len(x)) == rows:
            cure = "pass UnderstudyClassifier(pool=us.Pool(X_pool, teacher_pool)) instead, which is never cut"
            raise BadInput(f"X_pool has as many rows as X ({count}), and cross-validation cuts such arrays; {cure}")
        return Pool(x, self._labels(teacher_pool, "teacher_pool"))

    def _own_pool(self) -> Pool | None:
        if self.pool is None:
            return None
        teacher = getattr(self.pool, "teacher", None)  # what is no pool is refused in training
        if teacher is not None and self.classes is None and teacher.classes is None:
            raise BadInput("the pool's labels are numbers of classes; pass classes=[…], the labels in their order")
        if teacher is not None and teacher.classes not in (None, len(self.classes_)):
            known = f"the pool's teacher knows {teacher.classes} classes, y {len(self.classes_)}"
            raise BadInput(f"{known}; pass classes=[…], all labels in the teacher's order")
        return self.pool

    def _labels(self, given: Any, where: str) -> Labels:
        """Teacher labels over the numbers of ``classes_``."""
        if isinstance(given, Labels):
            return given
        names = tuple(map(str, self.classes_))
        if as_frame(given) is not None:
            try:
                labels = read_labels(None, given, names, where.replace("teacher", "X"))[1]
            except UnderstudyError as error:
                raise BadInput(error) from error
            assert labels is not None
            return labels
        column = as_column(given)
        values = np.asarray(given) if column is None else np.array(column.to_pylist(), dtype=object)
        if values.ndim == 1:
            return Hard(self._label_numbers(values, where), classes=len(names), where=where)
        if values.shape[1:] != (len(names),):
            known = f"{where} has shape {values.shape}; there are {len(names)} classes ({', '.join(names[:5])} …)"
            raise BadInput(f"{known}: pass classes=[…] where y misses some")
        return as_labels(values, where)

    def _label_numbers(self, values: Array, where: str, *, missing: bool = True) -> Array:
        """The places of labels in ``classes_``; −1 where one is missing and may be."""
        number: dict[Any, int] = {label: number for number, label in enumerate(self.classes_.tolist())}
        given = values.tolist()
        numbers = np.array([number.get(label, -1 if missing and _is_missing(label) else -2) for label in given])
        if (numbers == -2).any():
            row = int((numbers == -2).argmax())
            raise BadInput(f"{where} row {row} is {given[row]!r}, which is not one of the classes; pass classes=[…]")
        return numbers

    def _student(self, rows: Rows) -> Any:
        """A module or a function that builds one, whatever was given."""
        name = (LINEAR if prefers_linear(rows) else NET) if self.student is None else self.student
        if not isinstance(name, str):
            return name
        return partial(models.from_text, name, shape=row_shape(rows), classes=len(self.classes_))


def _is_missing(label: Any) -> bool:
    return label is None or label == -1 or label != label


def _is_text(X: Any) -> bool:
    """Whether X is a sequence of texts, for a student that reads such."""
    if isinstance(X, list | tuple | np.ndarray):
        return len(X) > 0 and isinstance(X[0], str)
    column = None if hasattr(type(X), "columns") or not hasattr(X, "__len__") else as_column(X)
    return column is not None and len(column) > 0 and isinstance(column[0].as_py(), str)
