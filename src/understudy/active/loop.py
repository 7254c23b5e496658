"""Active learning in rounds: select, label, train; from the first random labels to the last of the budget.

    loop = us.active.Loop(student, x, oracle, "s_badge", out="loop", start=300, batch=100, budget=1500, epochs=30)
    result = loop.run()
    result.stopped, result.records, result.gold, result.run.student

Round 0 labels `start` rows drawn at random; every further round labels the `batch` rows the strategy picks, then trains
again from scratch on all labels. Everything is on disk after each step (`active/loop_state.py`): `run()` on the same
folder continues where it stopped, to the same picks and accuracies, whether it was killed, had spent its budget (give a
larger one), or waits for a person. A row the oracle cannot label is recorded as skipped, counts for the budget, and is
never requested again. One process at a time runs a loop, and answers are on disk before they are used: no label is paid
for twice.
"""

import copy
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from understudy.acquisition.select import Scores, explain, select, strategy_named
from understudy.active import loop_state
from understudy.active.loop_options import LoopOptions
from understudy.active.loop_state import LABELLED, STATE, LoopState, Result
from understudy.active.oracles import LabelRequest, as_oracle
from understudy.active.watch import noise_watch
from understudy.comparison.comparison_options import take_options
from understudy.data.examples import Gold, Pool
from understudy.data.fitted_rows import mark_fitted
from understudy.errors import UnderstudyError, UnderstudyWarning, warn
from understudy.inference.passes import FeatureTap, evaluate, over_rows, predicted
from understudy.labels.forms import Labels, as_labels
from understudy.methods.vanilla import vanilla
from understudy.models.registry import initial_student
from understudy.objective import Objective
from understudy.store.console import deferred, ends_on_sigterm
from understudy.store.files import digest, locked, work_folder
from understudy.store.fingerprints import fingerprint
from understudy.store.log import HISTORY, LabelHistory
from understudy.store.option_fields import checked_plainly, known, spell_out
from understudy.store.settings import as_json
from understudy.training.automatic_options import builder_options, default_epochs
from understudy.training.averages import EMA
from understudy.training.callbacks import Callback
from understudy.training.evaluation import cross_validate, random_gold
from understudy.training.options import AUTO, SHARED, TrainingOptions, shows_options
from understudy.training.prepare import check_outputs
from understudy.training.run import Run
from understudy.training.train import fit_resolved, train

#: Random rows that measure rounds in which others were chosen. They helped to choose these, which then undo what single
#: rows did to the student: of 24 rows a cross-validated accuracy is 9 points too low or high, of 100 one.
FEWEST_RANDOM = 100


def score(student: nn.Module, x: Any, *, ema: EMA | None = None, layer: str | None = None) -> Scores:
    """Probabilities (N, C) and features (N, d), and the moving average's where there is one; eval mode, on the CPU."""
    probs, hidden = _pass(student, x, layer)
    return Scores(probs, hidden, *(_pass(ema.module, x, layer) if ema is not None else ()))


def _pass(model: nn.Module, x: Any, layer: str | None) -> list[Tensor]:
    tap = FeatureTap(model, layer)

    def look(batch: Any, index: Tensor) -> tuple[Tensor, Tensor]:
        logits, features = tap(batch)
        return logits.float().softmax(-1), features.float()

    return over_rows(model, x, look, outputs=2)


PREDICTED = "active.predicted"


class Loop:
    """``student``: a module, or a function that builds one; each round starts from it anew. ``x``: the pool's features.
    ``oracle``: see `active/oracles.py`. ``gold``: trusted rows from outside the pool, always trained on. ``test``:
    evaluated once a round. ``teacher``: imperfect labels of ``x``, which train too, by the method ``objective``;
    labelled rows leave them. ``class_names``: of the outputs, for ``labelled.csv`` and the label history. ``callbacks``
    see every round's training, ``on_round`` all records after each. ``options``: those of ``LoopOptions``
    (`active/loop_options.py`), and those of ``us.train`` that all rounds share.
    """

    @shows_options(SHARED)
    @checked_plainly
    @spell_out(LoopOptions)
    def __init__(
        self, student: nn.Module | Callable[[], nn.Module], x: Any, oracle: Any, strategy: str = "s_badge", *,
        out: str | Path, gold: Gold | None = None, test: Gold | tuple[Any, Any] | None = None,
        ids: Iterable[Any] | None = None, class_names: Sequence[str] | None = None, teacher: Any = None,
        objective: Objective | None = None, callbacks: Sequence[Callback] = (),
        on_round: Callable[[list[dict[str, Any]]], None] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self.options, training = take_options(LoopOptions, options)
        filled = builder_options(student, training)
        if filled.get("epochs") in (None, AUTO):
            filled["epochs"] = default_epochs(self.options.budget, filled.get("batch_size") or 128)
        self.recipe = TrainingOptions(**filled)
        labels: Labels | None = None if teacher is None else as_labels(teacher)
        self.pool, self.objective = Pool(x, labels, ids=ids), vanilla() if objective is None else objective
        self.oracle = as_oracle(oracle, size=len(self.pool))
        self.strategy, self.folder, self.callbacks, self.on_round = strategy, work_folder(out), callbacks, on_round
        self.class_names = None if class_names is None else tuple(class_names)
        self.test = Gold(*test) if isinstance(test, tuple) else test
        self.extra_gold = mark_fitted(gold, self.pool, test=self.test)
        start = self.options.start
        if start < 1 and gold is None:
            raise UnderstudyError(f"start={start} must be at least 1 where there is no gold=")
        if start > len(self.pool):
            raise UnderstudyError(f"start={start}, but the pool has {len(self.pool)} rows")
        self.student = student
        self.fresh = initial_student(student, 0)
        if self.recipe.device is not None:
            self.fresh = self.fresh.to(self.recipe.device)
        self.classes = check_outputs(self.fresh, gold, self.pool, test=self.test)
        if self.class_names is not None and len(self.class_names) != self.classes:
            raise UnderstudyError(f"class_names= holds {len(self.class_names)} of {self.classes} names; name them all")
        needs_ema = any(name.endswith("_ema") for name in strategy_named(strategy).needs)
        self.ema = EMA(self.fresh, decay=self.options.ema_decay, warmup=self.options.ema_warmup) if needs_ema else None
        self.settings = self._settings()
        with locked(self.folder) if (self.folder / STATE).exists() else nullcontext():
            self.state = LoopState.open(self.folder, self.settings)
        self.last: Run | None = None
        self.scores: Scores | None = None
        #: From a round's training and the records before it: more for its record.
        self.measure: Callable[[Run, list[dict[str, Any]]], dict[str, Any]] = lambda run, records: {}

    def run(self) -> Result:
        """Continue until the budget is spent, predictions are stable, no row is left, or a person must label."""
        with ends_on_sigterm(), locked(self.folder):
            return self._run()

    def _run(self) -> Result:
        # Another process may have run since: the state on the disk counts.
        state = LoopState.open(self.folder, self.settings)
        if state != self.state:
            self.last, self.scores = None, None
        self.state = state
        if state.round and self.last is None:
            # A kill may have come between the new state and the end of the old round's folder.
            loop_state.drop_rounds_before(self.folder, state.round - 1)
            previous = loop_state.round_folder(self.folder, state.round - 1)
            self.last = Run.load(previous, student=copy.deepcopy(self.fresh))
        while True:
            if state.step == "select":
                if stopped := self._finished():
                    return self._result(*stopped)
                self._select()
            if state.step == "label" and not self._label():
                return self._result("waiting", self.oracle.waiting(self._request(state.batch)))
            self._train()

    def _select(self) -> None:
        """Pick the batch of this round, with reasons, and check it for noise."""
        state, seed = self.state, _seed(self.options.seed, self.state.round)
        requested = torch.tensor(state.rows, dtype=torch.long)
        if state.round == 0:
            picks = select("random", min(self.options.start, self.options.budget), size=len(self.pool), seed=seed)
            state.notes = {}
        else:
            count = min(self.options.batch, self.options.budget - len(requested), len(self.pool) - len(requested))
            assert self.last is not None
            scores = self.scores = self.scores or self._score(self.last)
            picks = select(self.strategy, count, **scores.arrays(), labelled=requested, seed=seed)  # type: ignore[arg-type]
            labelled, labels, _ = state.answered()
            watch = noise_watch(scores.hidden, labelled, labels, picks, seed=seed)
            numbers, phrases = explain(self.strategy, picks, scores, labelled)
            state.notes = {"scores": numbers, "why": phrases, "watch": {**watch._asdict(), "alarm": watch.alarm}}
            if watch.alarm:
                warn(f"round {state.round}, {self.strategy}: {watch} (p = {watch.p_value:.1g}); check rows, or s_badge")
        state.batch, state.step = picks.tolist(), "label"
        state.save(self.folder)

    def _label(self) -> bool:
        """Request the labels of the batch; False where they are not there yet."""
        state = self.state
        # Nothing is open where gold alone makes the start.
        open_rows = [row for row in state.batch if str(row) not in state.answers]
        if open_rows and not self._fetch(open_rows):
            return False
        state.rows += state.batch
        state.labels += [state.answers[str(row)] for row in state.batch]
        state.rounds += [state.round] * len(state.batch)
        state.batch, state.answers, state.step = [], {}, "train"
        state.save(self.folder)
        return True

    def _fetch(self, rows: list[int]) -> bool:
        """Put the answers on disk; impossible labels are refused, and requested again in the next run."""
        with deferred():  # an answer under way is paid for
            answers = self.oracle.answers(self._request(rows))
            if answers is None:
                return False
            labels = dict(zip(rows, answers.tolist(), strict=True))
            usable = {row: label for row, label in labels.items() if label < self.classes}
            self.state.answers |= {str(row): label for row, label in usable.items()}
            self.state.history = self._add_to_history(usable)
            self.state.save(self.folder)
        for row, label in labels.items():
            if label >= self.classes:
                given = f"the oracle gives class {label} for row {row}, but the student has {self.classes} outputs"
                raise UnderstudyError(f"{given}; correct it and call run() again: the other answers are stored")
        return True

    def _add_to_history(self, labels: dict[int, int]) -> str:
        """Adds labels to the label history, by id and class name where there are such; its checksum."""
        names = labels if self.pool.ids is None else self.pool.ids[list(labels)].tolist()
        classes = self.class_names or range(self.classes)
        history = LabelHistory(self.folder / HISTORY)
        answers = [None if label < 0 else classes[label] for label in labels.values()]
        history.check(self.state.history)
        return history.add("answered", self.oracle.kind, dict(zip(names, answers, strict=True)), round=self.state.round)

    def _train(self) -> None:
        """Train on every label so far, and put the student and its record on disk."""
        state, clock = self.state, time.perf_counter()
        state.write_labelled(self.folder / LABELLED, self.pool.ids, self.class_names)
        before, seed = self.last, _seed(self.options.seed, state.round)
        gold = self._gold()
        if gold is None:
            raise UnderstudyError("every row so far was skipped, so there is nothing to train on; give gold= or start=")
        student = before.student if self.options.warm_start and before is not None else self.student
        with warnings.catch_warnings():
            # Early rounds often miss a class, and nothing is estimated on these rows.
            warnings.filterwarnings("ignore", message="gold holds no example", category=UnderstudyWarning)
            recipe, pool = self.recipe.replace(seed=seed, ema=self.ema), self._rest()
            given = {**recipe.arguments(), "callbacks": self.callbacks, "progress": False}
            run = train(student, gold, pool, self.objective, **given)
            correct = self._correct(run, gold, pool, recipe)
        self.scores = self._score(run)
        # Of the whole pool, not only of the rows that trained.
        labels = self.scores.probs.argmax(1)
        run.columns, run.ids = {PREDICTED: labels}, self.pool.ids
        changed = None if before is None else float((labels != before.columns[PREDICTED]).double().mean())
        skipped = sum(label < 0 for label in state.labels)
        record = {
            "round": state.round, "requested": len(state.rows), "labelled": len(state.rows) - skipped,
            "skipped": skipped, "loss": run.history[-1]["loss"], "changed": changed, "watch": state.notes.get("watch"),
            "test": None if self.test is None else evaluate(run.student, self.test),
            "seconds": time.perf_counter() - clock, **correct, **self.measure(run, state.records),
            **({} if self.test is None else {loop_state.TEST_ROWS: fingerprint(self.test)}),
        }  # fmt: skip
        run.save(loop_state.round_folder(self.folder, state.round))
        self.last = run
        state.records.append(record)
        state.round, state.step, state.notes = state.round + 1, "select", {}
        state.labelled = digest((self.folder / LABELLED).read_bytes())
        state.save(self.folder)
        loop_state.drop_rounds_before(self.folder, state.round - 1)
        if self.on_round is None:
            self._say(_line(record, self.strategy))
        else:
            self.on_round(state.records)

    def _rest(self) -> Pool | None:
        """The rows with the teacher's label alone."""
        if self.pool.teacher is None:
            return None
        stays = torch.ones(len(self.pool), dtype=torch.bool)
        stays[self.state.answered()[0]] = False
        rest = self.pool.take(stays.nonzero().squeeze(1))
        assert rest.teacher is not None
        return rest if bool(rest.teacher.labelled().any()) else None

    def _correct(self, run: Run, gold: Gold, pool: Pool | None, recipe: TrainingOptions) -> dict[str, Any]:
        """Which rows that did not train it are predicted correctly (``active/loop_state.py``), for the record."""
        if self.test is not None:
            return {loop_state.CORRECT: _digits(predicted(run.student, self.test.rows) == self.test.y)}
        if self.options.held_out and (len(random_gold(gold)) >= FEWEST_RANDOM or not bool(gold.chosen.any())):
            fit = partial(fit_resolved, self.student)
            found = cross_validate(fit, gold, pool, self.objective, recipe, compared=self.pool.rows)
            if found is not None:
                return {loop_state.CORRECT: _digits(found.correct), loop_state.DISAGREEMENT: found.disagreement}
        return {}

    def _finished(self) -> tuple[str, str] | None:
        state = self.state
        if not state.records:
            return None
        done = f"after {len(state.rows)} labels in {len(state.records)} rounds"
        if len(state.rows) >= self.options.budget:
            return "budget", f"the budget is spent {done}"
        if len(state.rows) >= len(self.pool):
            return "exhausted", f"no row is left to label {done}"
        changes = [record["changed"] for record in state.records][-(self.options.stop_after or 0) :]
        stable = [change is not None and change <= self.options.stop_change for change in changes]
        if self.options.stop_after and len(stable) == self.options.stop_after and all(stable):
            few = f"at most {self.options.stop_change:.1%} of the predictions"
            return "stable", f"{few} changed in each of the last {self.options.stop_after} rounds, {done}"
        return None

    def _request(self, open_rows: list[int]) -> LabelRequest:
        state, notes = self.state, self.state.notes
        places = [state.batch.index(row) for row in open_rows]
        scores, why = ([notes[name][place] for place in places] if name in notes else [] for name in ("scores", "why"))
        rows = torch.tensor(open_rows, dtype=torch.long)
        ids = None if self.pool.ids is None else self.pool.ids[rows.numpy()]
        return LabelRequest(state.round, rows, self.classes, ids, scores, why)

    def _result(self, stopped: str, message: str) -> Result:
        self._say(message)
        state = self.state
        rows, labels, rounds = (torch.tensor(x, dtype=torch.long) for x in (state.rows, state.labels, state.rounds))
        return Result(stopped, message, state.records, rows, labels, rounds, self._gold(), self.last)

    def _gold(self) -> Gold | None:
        rows, labels, chosen = self.state.answered()
        if not len(rows):
            return self.extra_gold
        part = self.pool.take(rows)
        gold = Gold(part.rows, labels, part.teacher, ids=part.ids, chosen=chosen)
        return gold if self.extra_gold is None else self.extra_gold + gold

    def _score(self, run: Run) -> Scores:
        return score(run.student, self.pool.rows, ema=run.ema, layer=self.recipe.feature_layer)

    def _settings(self) -> dict[str, Any]:
        """A loop can be continued only with the same."""
        same = [each.name for each in fields(LoopOptions) if not known(each).may_differ]
        gold, teacher = self.extra_gold, self.pool.teacher
        # A net without its weights, which differ each time a script makes it.
        student = [repr(self.fresh), [(name, tuple(value.shape)) for name, value in self.fresh.state_dict().items()]]
        return {name: getattr(self.options, name) for name in same} | {
            "strategy": self.strategy, "classes": self.classes, "rows": len(self.pool),
            "x": fingerprint(self.pool.rows), "feature_layer": self.recipe.feature_layer,
            "training": as_json(self.recipe.settings(leave_out=("seed", "ema", "feature_layer"))),
            "student": fingerprint(student), "ids": fingerprint(self.pool.ids),
            "oracle": self.oracle.kind, "class_names": None if self.class_names is None else list(self.class_names),
            "gold": 0 if gold is None else len(gold), "gold_rows": None if gold is None else fingerprint(gold),
            "teacher": None if teacher is None else fingerprint(teacher),
            "objective": None if teacher is None else fingerprint(self.objective),
        }  # fmt: skip

    def _say(self, line: str) -> None:
        if self.options.progress:
            print(line, file=sys.stderr, flush=True)


def _digits(correct: Tensor) -> str:
    return "".join("1" if one else "0" for one in correct.tolist())


def _line(record: dict[str, Any], strategy: str) -> str:
    """A round in one line, for the terminal."""
    line = f"{strategy}  round {record['round']}  {record['labelled']} labels"
    if record["test"] is not None:
        line += f"  test accuracy {record['test']['accuracy']:.4f}"
    if record["watch"] is not None:
        line += f"  noisy {record['watch']['share']:.0%} (random {record['watch']['random_share']:.0%})"
    return line


def _seed(seed: int, number: int) -> int:
    """A seed of its own for every round."""
    return seed * 100_003 + number
