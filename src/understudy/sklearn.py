"""Understudy as a scikit-learn classifier: X and y are gold; the pool is given to the constructor or to ``fit``.

    classifier = UnderstudyClassifier(method="slam", pool=us.Pool(X_pool, teacher_pool), epochs=30)
    classifier.fit(X, y, teacher=probs_on_X).predict(X_new)
    GridSearchCV(classifier, {"lower_bound": [0.5, 0.7]}, n_jobs=2).fit(X, y, teacher=probs_on_X)

    UnderstudyClassifier(pool=us.Pool(texts, answers), method="auto").fit(texts_of_mine, labels)      # texts
    UnderstudyClassifier(text="review").fit(frame, y, X_pool=others, teacher_pool=answers)            # mixed columns

It is thin: ``fit`` is one call of ``us.train`` (or ``us.auto``) and gives its bits; ``run_`` is what that returned.
Texts, and frames that hold other columns than numbers, become features as they do in ``us.fit``. Two traps:

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

from understudy.comparison.auto import auto
from understudy.comparison.comparison_options import AutoOptions
from understudy.data.examples import Gold, Pool
from understudy.data.inputs import TextRows, is_number_type
from understudy.errors import UnderstudyError, UnknownOption
from understudy.features.encoder import Encoded
from understudy.features.featuriser import FIND, FeatureOptions, Featuriser, text_alone
from understudy.io.gold_pool import features_of, fit_featuriser
from understudy.io.readers.arrays import is_texts
from understudy.io.table import Table, read_table
from understudy.labels.forms import Hard, Labels, as_labels, read_labels
from understudy.methods import METHODS
from understudy.objective import Objective
from understudy.store.arrow import Array, as_column, as_frame
from understudy.store.option_fields import check_names, with_parameters
from understudy.training.automatic_options import named_student
from understudy.training.callbacks import Callback
from understudy.training.options import AUTO, option_names, option_parameters
from understudy.training.run import Run
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
    ``method``: a name of ``us.METHODS`` or ``auto``, whose options are parameters too (``lower_bound=0.7``), or an
    objective. ``pool``: ``us.Pool(x, teacher)``. ``classes``: every label in the order of the teacher's columns; None:
    those in y, sorted. ``text``: the column of texts of a frame; ``encoder``: as in ``us.fit``. The other parameters
    are those of ``us.train``; None: its defaults.
    """

    @partial(with_parameters, shown=list(RECIPE.values()))
    def __init__(
        self, student: nn.Module | Callable[[], nn.Module] | str | None = None, method: str | Objective = "slam", *,
        pool: Pool | None = None, classes: Sequence[Any] | None = None, text: str | None = None, encoder: str = FIND,
        callbacks: Sequence[Callback] = (), progress: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.student, self.method, self.pool, self.classes = student, method, pool, classes
        self.text, self.encoder, self.callbacks, self.progress = text, encoder, callbacks, progress
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
        self._featuriser = self._fit_featuriser(X, X_pool)
        x, y = self._checked(X, y=y)
        check_classification_targets(y)
        self.classes_ = self._classes(y)
        numbers = self._label_numbers(y, "y", missing=False)
        labels = None if teacher is None else self._labels(teacher, "teacher")
        gold = Gold(x, numbers, labels, classes=tuple(map(str, self.classes_)), name="X")
        pool = self._pool(X_pool, teacher_pool, rows=len(numbers))
        recipe: dict[str, Any] = {name: value for name in RECIPE if (value := getattr(self, name)) is not None}
        frozen = any(isinstance(part, Encoded) for part in self._featuriser.parts) if self._featuriser else False
        student = named_student(self.student, gold, pool, frozen=frozen)
        if objective is None:
            run: Callable[..., Run] = partial(auto, student, gold, pool, **self._given_options() | {"workers": 1})
        else:
            run = partial(train, student, gold, pool, objective)
        self.run_ = run(progress=self.progress, callbacks=self.callbacks, **recipe)
        return self

    def predict_proba(self, X: Any) -> Array:
        """``(n, C)``, in the order of ``classes_``."""
        check_is_fitted(self)
        return self.run_.predict(self._checked(X)).numpy()

    def predict(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])

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
        if not isinstance(self.method, str) or self.method not in (*METHODS, AUTO):
            return set()
        return set(inspect.signature(METHODS.get(self.method, AutoOptions)).parameters) - RECIPE.keys()

    def _check_names(self, given: Iterable[str]) -> None:
        names = [*self._get_param_names(), *sorted(self._method_options())]
        check_names(given, names, f"UnderstudyClassifier(method={self.method!r})")

    def _given_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._method_options() if name in vars(self)}

    def _objective(self) -> Objective | None:
        """None: ``us.auto`` chooses it."""
        if isinstance(self.method, Objective):
            return self.method
        if self.method == AUTO:
            return None
        if self.method not in METHODS:
            known = f"{', '.join(METHODS)}, {AUTO}"
            raise BadInput(f"method={self.method!r} is unknown; use one of {known}, or an objective")
        for name in RECIPE.keys() & inspect.signature(METHODS[self.method]).parameters.keys():
            if getattr(self, name) is not None:
                cure = f"pass method=us.{self.method}(…), and {name}= is the training's"
                raise BadInput(f"{name}= is an option of {self.method} and of the training; {cure}")
        objective: Objective = METHODS[self.method](**self._given_options())
        return objective

    def _checked(self, X: Any, **with_y: Any) -> Any:
        """X as scikit-learn checks it, texts as they are, or its features. ``y=`` makes it the X that all others are
        held to; then both come back."""
        if self._featuriser is not None or is_texts(X):
            x = list(X) if self._featuriser is None else features_of(self._table(X), self._featuriser)
            if not with_y:
                return x
            y = column_or_1d(with_y["y"], warn=True)
            check_consistent_length(X, y)
            return x, y
        # Numbers for our own nets; a user's net may take anything, e.g. token ids.
        ours = self.student is None or isinstance(self.student, str)
        return validate_data(
            self, X, **with_y, reset=bool(with_y), accept_sparse="csr", allow_nd=True,
            dtype=[np.float64, np.float32] if ours else "numeric",
        )  # fmt: skip

    def _table(self, X: Any) -> Table:
        return read_table(X, name="X", single=self.text or "text")

    def _fit_featuriser(self, X: Any, X_pool: Any) -> Featuriser | None:
        """Of texts and of other columns than numbers; None where X is numbers, or a student of the user's takes it."""
        if not (self.student is None or isinstance(self.student, str)):
            return None
        if not is_texts(X) and (self.text is None and not _is_mixed(X)):
            return None
        gold = self._table(X)
        options = FeatureOptions(text=self.text or ("text" if is_texts(X) else None), encoder=self.encoder)
        own = getattr(getattr(self.pool, "rows", None), "texts", None) if X_pool is None else X_pool
        options = text_alone(gold.columns, options, where="X")
        return fit_featuriser(options, gold if own is None else self._table(own), {} if own is None else {"gold": gold})

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
            raise BadInput(f"the pool's teacher knows {teacher.classes} classes, y {len(self.classes_)}; pass classes=")
        if self._featuriser is not None and isinstance(self.pool.rows, TextRows):
            return Pool.of(self._checked(self.pool.rows.texts), teacher, self.pool.ids)
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


def _is_missing(label: Any) -> bool:
    return label is None or label == -1 or label != label


def _is_mixed(X: Any) -> bool:
    """Whether X is a frame with other columns than numbers."""
    frame = as_frame(X)
    return frame is not None and not all(is_number_type(frame.column(name).type) for name in frame.names)
