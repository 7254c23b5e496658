"""``understudy.sklearn``: the bits of ``us.train``, scikit-learn's own checks, and the traps of cross-validation."""

import copy
import inspect
import pickle
import warnings
from typing import Any

import joblib
import numpy as np
import pandas
import pyarrow as pa
import pytest
import sklearn
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import understudy as us
from understudy.errors import UnderstudyError, UnderstudyWarning, UnknownOption
from understudy.sklearn import RECIPE, UnderstudyClassifier

from .front_ends import each_method
from .test_contract import CLASSES, World, _build
from .test_session import ADAM, BATCH_SIZE, EPOCHS, SEED, assert_same, student

SETTINGS: dict[str, Any] = {"epochs": EPOCHS, "batch_size": BATCH_SIZE, "seed": SEED, **ADAM}
WORDS = np.array(["ant", "bee", "cat", "dog"], dtype=object)
EXPECTED_FAILURES: dict[str, str] = {}
"""scikit-learn's checks that fail, and why they may."""


@pytest.fixture
def world() -> Any:
    return World.make()


def probs(labels: Any) -> Any:
    return labels.probs.numpy()


def fitted(world: Any, **params: Any) -> UnderstudyClassifier:
    """With words for classes; the pool comes in ``fit``."""
    classifier = UnderstudyClassifier(**{"student": student(), **SETTINGS, **params})
    more = {} if classifier.pool is not None else {"X_pool": world.pool.x, "teacher_pool": probs(world.pool.teacher)}
    return classifier.fit(world.gold.x, WORDS[world.gold.y.numpy()], teacher=probs(world.gold.teacher), **more)


@each_method
def test_every_method_gives_the_bits_of_train(name: str, world: Any) -> None:
    """Dropout is on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnderstudyWarning)
        objective = _build(name, "training")
        ours = fitted(world, method=objective)
        run = us.train(student(), world.gold, world.pool, objective, progress=False, **SETTINGS)
    assert_same(ours.run_.student.state_dict(), run.student.state_dict())
    assert_same(ours.run_.columns, run.columns)
    assert ours.predict_proba(world.pool.x).tolist() == run.predict(world.pool.x).tolist()
    assert ours.predict(world.pool.x).tolist() == WORDS[run.predict(world.pool.x).argmax(1).numpy()].tolist()
    assert any(not value.equal(student().state_dict()[key]) for key, value in run.student.state_dict().items())


def test_options_of_the_method_are_parameters(world: Any) -> None:
    plain = fitted(world, method="slam", lower_bound=0.7)
    run = us.train(student(), world.gold, world.pool, us.slam(lower_bound=0.7), progress=False, **SETTINGS)
    assert_same(plain.run_.student.state_dict(), run.student.state_dict())
    assert_same(fitted(world, method=us.slam(lower_bound=0.7)).run_.student.state_dict(), run.student.state_dict())

    classifier = UnderstudyClassifier()
    assert "lower_bound" not in classifier.get_params()
    assert clone(classifier.set_params(lower_bound=0.7)).get_params()["lower_bound"] == 0.7
    assert repr(classifier) == "UnderstudyClassifier(lower_bound=0.7)"
    other = clone(classifier).set_params(refresh_every=2, method="weighted")
    assert "lower_bound" not in other.get_params() and other.get_params()["refresh_every"] == 2
    with pytest.raises(ValueError, match="did you mean 'lower_bound'"):
        classifier.set_params(lower_bnd=0.7)
    with pytest.raises(TypeError, match=r"'lower_bnd' of UnderstudyClassifier\(method='slam'\); did you mean"):
        UnderstudyClassifier(lower_bnd=0.7)
    with pytest.raises(UnderstudyError, match=r"method='slm' is unknown; use one of "):
        fitted(World.make(), method="slm")


def test_parameters_are_those_of_train() -> None:
    """Each option of a training is one, and left open; the few that a method has too are not guessed."""
    theirs = inspect.signature(us.train).parameters
    assert RECIPE.keys() <= theirs.keys() and {each.default for each in RECIPE.values()} == {None}
    own = {name: set(inspect.signature(factory).parameters) for name, factory in us.METHODS.items()}
    shared = {name: options & UnderstudyClassifier().get_params().keys() for name, options in own.items()}
    both = {(name, option) for name, options in shared.items() for option in options}
    assert both == {("self_distillation", "schedule"), ("gce", "warmup"), ("mentornet_pd", "warmup")}
    with pytest.raises(ValueError, match=r"warmup= is an option of gce and of the training; pass method=us\.gce"):
        fitted(World.make(), method="gce", warmup=0.1)


def test_the_pool_of_the_constructor_is_neither_cut_nor_copied(world: Any) -> None:
    kept = fitted(world, pool=world.pool)
    assert_same(kept.run_.student.state_dict(), fitted(world).run_.student.state_dict())
    assert clone(kept).pool is world.pool
    with pytest.raises(ValueError, match="in the constructor and another in fit"):
        kept.fit(world.gold.x, world.gold.y, X_pool=world.pool.x, teacher_pool=world.pool.teacher)


def test_a_pool_that_cross_validation_would_cut_is_refused(world: Any) -> None:
    x, y = world.gold.x.numpy(), world.gold.y.numpy()
    classifier = UnderstudyClassifier(student(), "vanilla", **SETTINGS)
    same = {"X_pool": x + 1, "teacher_pool": probs(world.gold.teacher)}
    with pytest.raises(ValueError, match=r"as many rows as X \(40\), and cross-validation cuts .*pool=us\.Pool"):
        classifier.fit(x, y, **same)
    with pytest.raises(ValueError, match=r"as many rows as X \(20\), and cross-validation cuts"):
        cross_val_score(classifier, x, y, cv=2, params=same, error_score="raise")
    with pytest.raises(ValueError, match="X_pool and teacher_pool go together"):
        classifier.fit(x, y, X_pool=x[:9])


def test_a_grid_over_lower_bound(world: Any) -> None:
    """What the search finds is what one finds by hand: the teacher's word on gold is cut with X, the pool is not."""
    x, y, teacher = world.gold.x.numpy(), world.gold.y.numpy(), probs(world.gold.teacher)
    classifier = UnderstudyClassifier(student(), pool=world.pool, **SETTINGS)
    search = GridSearchCV(classifier, {"lower_bound": [0.5, 0.9]}, cv=2).fit(x, y, teacher=teacher)
    folds = list(search.cv_results_["params"])
    assert folds == [{"lower_bound": 0.5}, {"lower_bound": 0.9}]
    train, test = next(iter(sklearn.model_selection.StratifiedKFold(2).split(x, y)))
    run = us.train(
        student(), us.Gold(x[train], y[train], teacher[train]), world.pool, us.slam(lower_bound=0.9), progress=False,
        **SETTINGS,
    )  # fmt: skip
    right = (run.predict(x[test]).argmax(1).numpy() == y[test]).mean()
    assert search.cv_results_["split0_test_score"][1] == right
    assert search.best_estimator_.lower_bound == search.best_params_["lower_bound"]


def test_a_grid_in_two_processes_gives_the_same_scores(world: Any) -> None:
    x, y = world.gold.x.numpy(), WORDS[world.gold.y.numpy()]
    classifier = UnderstudyClassifier("mlp:8,dropout=0.3", pool=world.pool, epochs=EPOCHS, seed=SEED)
    grid = {"lower_bound": [0.5, 0.9]}
    with joblib.parallel_config("multiprocessing"):  # forks: torch is imported once
        one, two = (
            GridSearchCV(classifier, grid, cv=2, n_jobs=jobs).fit(x, y, teacher=probs(world.gold.teacher))
            for jobs in (1, 2)
        )
    assert one.cv_results_["mean_test_score"].tolist() == two.cv_results_["mean_test_score"].tolist()
    assert_same(one.best_estimator_.run_.student.state_dict(), two.best_estimator_.run_.student.state_dict())


def test_a_pipeline_transforms_the_pool_where_it_is_routed(world: Any) -> None:
    x, y = world.gold.x.numpy() * 3 + 1, WORDS[world.gold.y.numpy()]
    x_pool, teacher = world.pool.x.numpy() * 3 + 1, probs(world.pool.teacher)
    scaled = StandardScaler().fit(x)
    expected = UnderstudyClassifier(student(), "vanilla", **SETTINGS)
    expected.fit(scaled.transform(x), y, X_pool=scaled.transform(x_pool), teacher_pool=teacher)
    with sklearn.config_context(enable_metadata_routing=True):
        classifier = clone(expected).set_fit_request(teacher=True, X_pool=True, teacher_pool=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("net", classifier)], transform_input=["X_pool"])
        pipeline.fit(x, y, X_pool=x_pool, teacher_pool=teacher)
        search = GridSearchCV(pipeline, {"net__epochs": [1, 2]}, cv=2)
        search.fit(x, y, teacher=probs(world.gold.teacher), X_pool=x_pool, teacher_pool=teacher)
    assert_same(pipeline[-1].run_.student.state_dict(), expected.run_.student.state_dict())
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_teachers_columns_are_matched_by_name(world: Any) -> None:
    expected = fitted(world).run_.student.state_dict()
    other = [2, 0, 3, 1]

    def frame(labels: Any) -> Any:
        return pa.table({f"teacher_prob_{WORDS[each]}": probs(labels)[:, each] for each in other})

    x, y = world.gold.x, WORDS[world.gold.y.numpy()]
    classifier = UnderstudyClassifier(student(), **SETTINGS)
    pool = {"X_pool": world.pool.x, "teacher_pool": frame(world.pool.teacher)}
    assert_same(classifier.fit(x, y, teacher=frame(world.gold.teacher), **pool).run_.student.state_dict(), expected)
    with pytest.raises(ValueError, match=r"X\.teacher has columns cat, dog, bee; give one for each of ant, bee"):
        classifier.fit(x, y, teacher=frame(world.gold.teacher).drop_columns(["teacher_prob_ant"]))
    # In another order of the classes, the student's outputs are in that order.
    turned = UnderstudyClassifier(student(), classes=WORDS[other], **SETTINGS)
    turned.fit(x, y, teacher=frame(world.gold.teacher), **pool)
    assert turned.classes_.tolist() == WORDS[other].tolist()
    assert turned.run_.config["class_names"] == WORDS[other].tolist()
    by_hand = us.train(
        student(), us.Gold(x, torch.tensor([1, 3, 0, 2])[world.gold.y], probs(world.gold.teacher)[:, other]),
        us.Pool(world.pool.x, probs(world.pool.teacher)[:, other]), us.slam(), progress=False, **SETTINGS,
    )  # fmt: skip
    assert_same(turned.run_.student.state_dict(), by_hand.student.state_dict())


def test_a_pool_that_names_its_classes_must_name_these(world: Any) -> None:
    y, teacher = WORDS[world.gold.y.numpy()], probs(world.pool.teacher)
    columns = pa.table({word: teacher[:, number] for number, word in enumerate(WORDS)})
    named = UnderstudyClassifier(student(), "vanilla", pool=us.Pool(world.pool.x, columns), **SETTINGS)
    plain = UnderstudyClassifier(student(), "vanilla", pool=us.Pool(world.pool.x, teacher), **SETTINGS)
    assert_same(*(each.fit(world.gold.x, y).run_.student.state_dict() for each in (named, plain)))
    turned = us.Pool(world.pool.x, columns, classes=("dog", "cat", "bee", "ant"))
    with pytest.raises(UnderstudyError, match=r"gold's classes are ant, bee, cat, dog, the pool's dog, cat, bee, ant"):
        clone(named).set_params(pool=turned).fit(world.gold.x, y)


def test_hard_labels_are_labels_as_in_y(world: Any) -> None:
    said = world.pool.teacher.top1()
    words = [None if row == 3 else WORDS[label] for row, label in enumerate(said.tolist())]
    classifier = UnderstudyClassifier(student(), "vanilla", **SETTINGS)
    x, y = world.gold.x, WORDS[world.gold.y.numpy()]
    classifier.fit(x, y, X_pool=world.pool.x, teacher_pool=words)
    said[3] = -1
    run = us.train(
        student(), us.Gold(x, world.gold.y), us.Pool(world.pool.x, us.Hard(said, classes=CLASSES)), us.vanilla(),
        progress=False, **SETTINGS,
    )  # fmt: skip
    assert_same(classifier.run_.student.state_dict(), run.student.state_dict())
    with pytest.raises(ValueError, match=r"teacher_pool row 1 is 'cow', which is not one of the classes"):
        classifier.fit(x, y, X_pool=world.pool.x[:2], teacher_pool=["ant", "cow"])


def test_classes_that_y_misses_are_asked_for(world: Any) -> None:
    """A fold without a class must not shift the numbers of the others."""
    x, y = world.gold.x, WORDS[world.gold.y.numpy()]
    some = y != "bee"
    with pytest.raises(ValueError, match=r"the pool's teacher knows 4 classes, y 3; pass classes="):
        UnderstudyClassifier(student(), pool=world.pool).fit(x[some], y[some])
    with pytest.raises(ValueError, match=r"shape \(12, 4\); there are 3 classes .*pass classes="):
        UnderstudyClassifier(student()).fit(
            x[some], y[some], X_pool=world.pool.x, teacher_pool=probs(world.pool.teacher)
        )
    with pytest.raises(ValueError, match=r"labels are numbers of classes; pass classes="):
        UnderstudyClassifier(student(), pool=us.Pool(world.pool.x, world.pool.teacher.top1())).fit(x, y)
    whole = UnderstudyClassifier("mlp:4", "vanilla", pool=world.pool, classes=WORDS, epochs=1)
    with pytest.warns(UnderstudyWarning, match="no example of class bee"):
        whole.fit(x[some], y[some])
    assert whole.predict_proba(x).shape == (40, 4)
    with pytest.raises(ValueError, match=r"is 'bee', which is not one of the classes"):
        UnderstudyClassifier(classes=["ant", "cat", "dog"]).fit(x, y)
    with pytest.raises(ValueError, match="one class only"):
        UnderstudyClassifier().fit(x, np.zeros(40))


def test_pickle_sparse_rows_and_copies(world: Any) -> None:
    x, y = world.gold.x.numpy(), world.gold.y.numpy()
    one = UnderstudyClassifier("linear", "vanilla").fit(sparse.csr_matrix(x), y)
    again = pickle.loads(pickle.dumps(one))  # noqa: S301
    assert again.predict_proba(x).tolist() == one.predict_proba(x).tolist()
    assert copy.deepcopy(one).predict(sparse.csr_matrix(x)).tolist() == one.predict(x).tolist()
    assert one.run_.config["optimizer"] == "lbfgs"  # what suits a linear student
    assert UnderstudyClassifier("linear", lr=0.1, epochs=1).fit(x, y).run_.config["optimizer"] == "adam"


def test_frames_keep_their_columns_in_order(world: Any) -> None:
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(world.gold.x.numpy(), columns=list("abcde"))
    classifier = fitted(world).fit(x, world.gold.y.numpy())
    assert classifier.feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(x[list("edcba")])


@pytest.mark.slow
def test_scikit_learns_own_checks() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(UnderstudyClassifier(epochs=15), on_fail=None, on_skip=None)
    failed = {each["check_name"]: each["exception"] for each in results if each["status"] == "failed"}
    assert failed.keys() == EXPECTED_FAILURES.keys(), failed
    assert sum(each["status"] == "passed" for each in results) > 50


TEXTS = [f"{'good fine' if row % 2 else 'dull awful'} film {row}" for row in range(60)]
OPINIONS = np.array([("neg", "pos")[(row + (row % 10 == 0)) % 2] for row in range(60)], dtype=object)
PLAIN: dict[str, Any] = {"optimizer": "lbfgs", "epochs": 3, "weight_decay": 0.01, "encoder": "none"}


def test_texts_become_the_features_of_fit() -> None:
    """X and the pool as texts: the same student as us.fit trains, on too few gold rows to fit a temperature on."""
    pool = us.Pool(TEXTS[18:], OPINIONS[18:])
    classifier = UnderstudyClassifier(method="vanilla", pool=pool, classes=["neg", "pos"], **PLAIN)
    truth = np.array(["neg", "pos"] * 9, dtype=object)
    for texts in (TEXTS[:18], np.array(TEXTS[:18]), pandas.Series(TEXTS[:18])):
        classifier.fit(texts, truth)
    model = us.fit((TEXTS[:18], truth), (TEXTS[18:], OPINIONS[18:]), method="vanilla", progress=False, **PLAIN)
    assert_same(classifier.run_.student.state_dict(), model.run.student.state_dict())
    new = ["a good film", "dull"]
    assert classifier.predict(new).tolist() == ["pos", "neg"]
    assert np.array_equal(classifier.predict_proba(np.array(new, dtype=object)), model.run.predict(new).numpy())
    copied = copy.deepcopy(classifier)
    assert np.array_equal(copied.predict_proba(new), classifier.predict_proba(new))
    scores = cross_val_score(clone(classifier), np.array(TEXTS[:18], dtype=object), truth, cv=3)
    assert scores.shape == (3,) and scores.mean() > 0.9


def test_mixed_columns_in_a_pipeline() -> None:
    frame = pandas.DataFrame({"review": TEXTS, "stars": np.arange(60) % 5, "shop": ["a", "b", "c"] * 20})
    truth = np.array(["neg", "pos"] * 30, dtype=object)
    last = UnderstudyClassifier(method="vanilla", text="review", **PLAIN)
    pipeline = Pipeline([("classifier", last)]).fit(frame, truth)
    assert (pipeline.predict(frame) == truth).all() and pipeline.score(frame, truth) == 1
    without = UnderstudyClassifier(method="vanilla", **PLAIN).fit(frame[["stars", "shop"]], truth)
    assert without._featuriser is not None and set(without._featuriser.names) == {"stars", "shop"}
    with pytest.raises(UnderstudyError, match=r"X \(pandas DataFrame\) has no column 'shop', which is a feature"):
        without.predict(frame[["stars"]])


def test_auto_is_a_method() -> None:
    truth = np.array(["neg", "pos"] * 12, dtype=object)
    pool = us.Pool(TEXTS[24:], us.Hard(OPINIONS[24:], classes=["neg", "pos"]))
    options = {**PLAIN, "pilot_rows": 30, "folds": 2, "methods": ["gce"]}
    ours = UnderstudyClassifier(method="auto", pool=pool, **options).fit(TEXTS[:24], truth, teacher=OPINIONS[:24])
    assert ours.run_.config["auto"]["folds"] == 2 and ours.predict(["good fine"]).tolist() == ["pos"]
    assert clone(ours).get_params()["pilot_rows"] == 30
    with pytest.raises(UnknownOption, match="did you mean 'pilot_rows'"):
        UnderstudyClassifier(method="auto", pilot_row=3)
