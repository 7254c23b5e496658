"""The public step: what a batch is, and what it costs under an objective, for any training loop.

    session = us.Session(student, gold, pool, us.slam(), batch_size=128, seed=0, epochs=30)
    optimizer = torch.optim.Adam(session.parameters())
    for epoch in range(30):
        for batch in session.batches(epoch):              # prepares and refreshes columns when due
            loss = session.loss(student, batch)           # or whatever wraps the student: DDP, torch.compile, …
            loss.backward(); optimizer.step(); optimizer.zero_grad()

``us.train`` is its first user, and such a loop ends with the same bits. An epoch has random states of its own, made of
seed and epoch: it can be repeated without the ones before it, and the caller's random state is put back when it ends.
``session.state_dict()``, taken inside the loop after a step (or between epochs), and the student's and the optimizer's
own are all it takes to go on later, in the middle of an epoch too.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from understudy.data import batches as planning
from understudy.data.examples import Gold, Pool, check_sets, drop_unlabelled, set_read_by, weigh_by_gold
from understudy.data.rows import TensorRows
from understudy.errors import UnderstudyError, warn
from understudy.inference.passes import device_of, to_device, usable_device
from understudy.models.registry import fresh_student
from understudy.models.small_nets import takes_sparse
from understudy.objective import Columns, Objective
from understudy.store.option_fields import checked_plainly
from understudy.training.averages import MOST_ENTRIES, RefinedLabels
from understudy.training.batch_loss import Batch, Scored, Scorer, StudentLearner, WeightedSum
from understudy.training.distributed import current
from understudy.training.options import LBFGS, SESSION, TrainingOptions, shows_options
from understudy.training.prepare import check_outputs, report_gold
from understudy.training.processes import Processes


def seed_torch(seed: int) -> None:
    """``torch.manual_seed``, which without an accelerator takes a millisecond to note that there is none."""
    torch.default_generator.manual_seed(seed)
    if torch.accelerator.is_available():
        torch.manual_seed(seed)


def seeded_student(student: nn.Module | Callable[[], nn.Module], options: TrainingOptions) -> nn.Module:
    """A copy of a module, or what a function builds under the seed, on the device of the options."""
    seed_torch(options.seed)
    student = fresh_student(student)
    return student if options.device is None else student.to(usable_device(options.device))


def seed_of_rank(seed: int, rank: int) -> int:
    """A seed of its own for every process, far from its neighbours'; process 0 has that of the only one."""
    return (seed + rank * 0x1E3779B97F4A7C15) % (1 << 62)


def get_random(device: torch.device) -> dict[str, Tensor]:
    """PyTorch's random state."""
    states = {"torch": torch.get_rng_state()}
    return states | ({"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def set_random(states: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["torch"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)


class RandomStates:
    """The random states of an epoch: PyTorch's own, that of the augmentation, and that of a learner's draws.

    Of processes that train together each has the first two for itself, so that no two drop the same units; the draws
    are the same in all of them.
    """

    def __init__(self, draws: torch.Generator, augment: torch.Generator, processes: Processes | None = None) -> None:
        self.draws, self.augment, self.processes = draws, augment, processes
        self.device = torch.device("cpu")
        #: Whether the caller's state is put back when an epoch ends, or is left before its end.
        self.restores = True
        self._loaded: dict[str, Tensor] = {}

    @contextmanager
    def of_epoch(self, seed: int, *, resumed: bool, device: torch.device) -> Iterator[None]:
        self.device = device
        cuda = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(cuda, enabled=self.restores):
            own = seed if self.processes is None else seed_of_rank(seed, self.processes.rank)
            if not resumed:
                self.draws.manual_seed(seed + 2)
            if resumed and "torch" in self._loaded:
                set_random(self._loaded, device)
            else:  # also a process more than there were when the state was taken
                seed_torch(own)
                self.augment.manual_seed(own + 1)
            yield

    def state_dict(self) -> dict[str, Tensor]:
        """Process r's own states end in ``.r``; those of process 0, or of the only one, have their plain names."""
        own = get_random(self.device) | {"augment": self.augment.get_state()}
        every = [own] if self.processes is None else self.processes.gather_objects(own)
        ranks = [(rank, name, state) for rank, states in enumerate(every) for name, state in states.items()]
        states = {f"{name}.{rank}" if rank else name: state for rank, name, state in ranks}
        return states | {"draws": self.draws.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        rank = 0 if self.processes is None else self.processes.rank
        names = {name: f"{name}.{rank}" if rank else name for name in ("torch", "augment", "cuda")}
        self._loaded = {name: state[own] for name, own in names.items() if own in state}
        if "augment" in self._loaded:
            self.augment.set_state(self._loaded["augment"])
        self.draws.set_state(state["draws"])


class Session:
    """Batches and their losses. ``student``: the bare module, trained in place; ``epochs``: how long training will be,
    for methods that change on the way; ``full_batch``: an epoch is one batch of all rows, scored as
    often as the optimizer wants. Weights and targets made of the student's own predictions then stay as they were when
    the batch was first scored, so that there is one function to minimise."""

    epochs: float | None

    @shows_options(SESSION)
    @checked_plainly
    def __init__(
        self, student: nn.Module, gold: Gold | None, pool: Pool | None, objective: Objective, *,
        epochs: int | None = None, full_batch: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        check_sets(gold, pool)
        if not isinstance(student, nn.Module):
            raise UnderstudyError(f"student is a {type(student).__name__}; pass a module")
        if epochs is None and isinstance(objective, Objective) and objective.wants_progress:
            raise UnderstudyError(f"{objective.name} changes in the course of training; pass epochs= to us.Session")
        how: dict[str, Any] = {"optimizer": LBFGS} if full_batch else {}
        self._begin(student, gold, pool, objective, TrainingOptions(epochs=epochs or 1, **how, **options))
        self.epochs = epochs

    @classmethod
    def from_options(
        cls, student: nn.Module, gold: Gold | None, pool: Pool | None, objective: Objective, options: TrainingOptions,
        *, classes: int | None = None, warn: bool = True,
    ) -> "Session":  # fmt: skip
        """The session of a training with these options; ``warn``: whether gold is checked for it, with warnings.

        ``classes``: how many the student scores, where it is known that it fits the rows.
        """
        session = cls.__new__(cls)
        session._begin(student, gold, pool, objective, options, classes=classes, warn=warn)
        return session

    def _begin(
        self, student: nn.Module, gold: Gold | None, pool: Pool | None, objective: Objective, options: TrainingOptions,
        *, classes: int | None = None, warn: bool = True,
    ) -> None:  # fmt: skip
        _check_arguments(gold, pool, objective, options)
        self.options = options if pool is None or objective.gold_trains else options.replace(gold_repeat=0)
        gold, pool = weigh_by_gold(gold, pool)
        gold, pool = set_read_by(student, gold), set_read_by(student, pool)
        self.epochs = options.epochs
        self.full_batch, self._warns = options.optimizer == LBFGS, warn
        self.student, self.gold, self.full_pool, self.objective = student, gold, pool, objective
        #: The gold rows that students are fitted to.
        self.trains = None if gold is None else gold.training()
        self.pool, self.labelled = drop_unlabelled(pool)
        self.classes = check_outputs(student, gold, self.pool) if classes is None else classes
        self.learner = StudentLearner(
            student, objective, gold, self.pool, self.options, classes=self.classes, labelled=self.labelled,
            pool_size=0 if pool is None else pool.rows.count, processes=current(),
        )  # fmt: skip
        #: Numbers kept with the run.
        self.facts = self.learner.facts
        own_scorer = objective.scorer if self.pool is not None else None
        self.scorer: Scorer = WeightedSum(self.learner) if own_scorer is None else own_scorer(self.learner)
        self.refined = self._refined_labels() if options.refine else None
        #: The processes that share its batches.
        self.processes = self.learner.processes
        self.random = RandomStates(self.learner.draws, self.learner.augmentation, self.processes)
        #: Whether the last loss may move the student; False where every weight of its batch was zero.
        self.moves = True
        #: The epoch under way, how many of its batches are done, and all its rows.
        self.epoch, self.batch, self.epoch_rows = 0, 0, 0
        #: How often columns were prepared.
        self.prepared = 0
        self._resumes = False
        #: The order of the full batch, and its features.
        self._full: tuple[Tensor, Any] | None = None

    def _refined_labels(self) -> RefinedLabels | None:
        if self.pool is None:
            return None
        rows = self.pool.rows.count
        if rows * self.classes <= MOST_ENTRIES:
            return RefinedLabels(rows, self.classes)
        what = f"{rows:,} rows × {self.classes:,} classes are too many to average predictions over"
        warn(f"{what}: the run will have no refined.* columns; pass refine=False to say you know")
        return None

    def prepare(self, epoch: int = 0, *, warn: bool = True) -> None:
        """Let every slot read gold, pool and the student. Called by itself when it is due; ``warn``: False where other
        columns will be loaded in the place of these."""
        if self.objective.relabel is not None and self.pool is not None:
            cure = "make them with us.reconcile(…) and train on that pool with us.vanilla()"
            raise UnderstudyError(f"{self.objective.name} trains to make labels, which only us.train does; {cure}")
        if not self.prepared:
            if self._warns:
                self.facts |= report_gold(self.gold, self.pool, self.classes, self.full_pool)
            with torch.random.fork_rng():
                seed_torch(self.options.seed)
                self.scorer.prepare(0, warn=warn and self._warns)
            self.prepared = 1
        if epoch:
            self.scorer.prepare(epoch, warn=warn and self._warns)
            self.prepared += 1

    @property
    def rows(self) -> int:
        """Of an epoch."""
        golds = 0 if self.trains is None else len(self.trains.y) * self.options.gold_repeat
        return golds + (0 if self.pool is None else self.pool.rows.count)

    @property
    def batches_per_epoch(self) -> int:
        return 1 if self.full_batch else planning.count_batches(self.rows, self.options.batch_size)

    def parameters(self) -> list[nn.Parameter]:
        """What an optimizer moves: the student's, and those of the modules that the method trains beside it."""
        return [*self.student.parameters(), *self.module_parameters()]

    def module_parameters(self) -> list[nn.Parameter]:
        """The second half of these."""
        self.prepare()
        return list(nn.ModuleDict(self.learner.modules).parameters())

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch in their order, from where a loaded state left off."""
        options = self.options
        first = self.batch if self._resumes and epoch == self.epoch else 0
        every = self.objective.refresh_every
        self.prepare(epoch if every and not first and epoch % every == 0 else 0)
        plan = self._plan(epoch)
        sizes = plan.sizes
        self.epoch, self.batch, self.epoch_rows = epoch, first, sum(sizes)
        self.student.train()
        numbers = None if self.gold is self.trains or self.gold is None else self.gold.training_rows()
        seed = planning.epoch_seed(options.seed, epoch)
        with self.random.of_epoch(seed, resumed=first > 0, device=device_of(self.student)):
            self._resumes = False
            mine = plan if self.processes is None else plan.part_of(self.processes.rank, self.processes.size)
            for number, (x, golds, pools) in enumerate(self._fetch(mine, first), start=first):
                self.batch = number + 1
                step = number - number % options.accumulate
                gold_count = len(golds) if self.processes is None else plan.golds_in(number)
                yield Batch(
                    x=x if options.augment is None else options.augment(x, self.random.augment),
                    gold_rows=golds if numbers is None else numbers[golds], pool_rows=pools,
                    gold_count=gold_count, pool_count=sizes[number] - gold_count, epoch=epoch, number=number,
                    progress=float("nan") if self.epochs is None else (epoch + number / len(sizes)) / self.epochs,
                    step_rows=sum(sizes[step : step + options.accumulate]),
                    ends_step=number + 1 == min(step + options.accumulate, len(sizes)),
                    ends_epoch=number + 1 == len(sizes), full=self.full_batch,
                )  # fmt: skip
        self.epoch, self.batch = epoch + 1, 0

    def _plan(self, epoch: int) -> planning.EpochPlan:
        options, pool, sampling = self.options, self.pool, _sampling(self.learner.columns)
        golds = len(self.trains.y) if self.trains is not None and options.gold_repeat else 0
        pools, repeat, seed = 0 if pool is None else pool.rows.count, options.gold_repeat, options.seed
        if self.full_batch:
            return planning.plan_full_batch(golds, pools, gold_repeat=repeat, seed=seed, sampling=sampling)
        return planning.plan_epoch(
            golds, pools, batch_size=options.batch_size, gold_repeat=repeat, seed=seed, epoch=epoch,
            sampling=sampling, block=None if pool is None else pool.rows.preferred_block,
            lengths=self._lengths(golds) if options.group_by_length else None,
        )  # fmt: skip

    def _lengths(self, golds: int) -> Tensor:
        """Of the gold rows that train, then of the pool rows."""
        gold, pool = self.trains if golds else None, self.pool
        known = [part.rows.lengths() for part in (gold, pool) if part is not None]
        lengths = [each for each in known if each is not None]
        if len(lengths) < len(known):
            raise UnderstudyError("group_by_length=True is for texts that a student reads (us.text); leave it out")
        return torch.cat(lengths)

    def _fetch(self, plan: planning.EpochPlan, first: int) -> Iterator[tuple[Any, Tensor, Tensor]]:
        gold, pool = (None if part is None else part.rows for part in (self.trains, self.pool))
        if not self.full_batch:
            yield from planning.fetch_batches(gold, pool, plan.after(first), workers=self.options.workers)
            return
        if self._full is None or not self._full[0].equal(plan.order):
            given = [rows for rows in (gold, pool) if rows is not None]
            plain, rows = takes_sparse(self.student) and self.learner.tap is None, given[0]
            in_order = len(given) == 1 and self.processes is None and plan.order.equal(torch.arange(rows.count))
            if plain and all(rows.is_sparse for rows in given):
                x: Any = planning.fetch_sparse(gold, pool, plan)
            elif plain and in_order and type(rows) is TensorRows and self.options.augment is None:
                x = rows.x.to(torch.get_default_dtype()).contiguous()  # the layer only reads: mostly no copy
            else:
                ((x, _, _),) = planning.fetch_batches(gold, pool, plan)
            self._full = plan.order, to_device(x, device_of(self.student))
        yield self._full[1], *plan[0]

    def score(self, model: Any, batch: Batch) -> Scored:
        """The batch's summed loss through ``model``; the refined labels take note of it."""
        scored = self.scorer.score(model, batch)
        if self.refined is not None and scored.logits is not None:
            self.refined.add(batch.pool_rows, scored.logits, scored.weights)
        self.moves = scored.moves
        return scored

    def loss(self, model: Any, batch: Batch) -> Tensor:
        """The mean loss over the rows of the step.

        Where all weights are zero it is a zero that no parameter had a part in: no gradient reaches the student, and
        PyTorch's optimizers leave alone what has none, where momentum or weight decay would still have moved it.
        """
        return mean_loss(self.score(model, batch), batch)

    def on_gold_alone(self, *, epochs: int) -> "Session":
        """The same student and objective without a pool: for pretraining and fine-tuning."""
        options = self.options.replace(gold_repeat=1, epochs=epochs)
        return Session.from_options(self.student, self.trains, None, self.objective, options, warn=False)

    @property
    def columns(self) -> Columns:
        """What was prepared for the student."""
        return self.learner.columns

    @property
    def columns_of_nets(self) -> dict[str, Columns]:
        """The columns of every net that the method trains; "" is the student."""
        return {net: learner.columns for net, learner in self.scorer.learners.items()}

    @columns_of_nets.setter
    def columns_of_nets(self, columns: Mapping[str, Columns]) -> None:
        for net, own in columns.items():
            self.scorer.learners[net].columns = dict(own)

    def parts(self) -> dict[str, Any]:
        """What changes as training goes on, apart from student and columns, each with its ``state_dict``."""
        parts = {"modules": nn.ModuleDict(self.learner.modules), "random": self.random}
        return parts if self.refined is None else parts | {"refinery": self.refined}

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values; inside a loop over ``batches``, the batch in hand counts as done."""
        states = {name: part.state_dict() for name, part in self.parts().items()}
        return states | {"columns": self.columns_of_nets, "facts": self.facts, "epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.prepare(warn=False)  # makes the modules that the method trains
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        self.columns_of_nets = state["columns"]
        self.facts.update(state["facts"])
        self.resume_at(state["epoch"], state["batch"])

    def resume_at(self, epoch: int, batch: int) -> None:
        """``batches(epoch)`` will go on after so many batches, with the random states that were loaded."""
        self.epoch, self.batch, self._resumes = epoch, batch, True


def _check_arguments(gold: Gold | None, pool: Pool | None, objective: Objective, options: TrainingOptions) -> None:
    """Refuse an objective that is none, and sets without a row to train on."""
    if not isinstance(objective, Objective):
        raise UnderstudyError(f"objective is a {type(objective).__name__}; pass what a method returns, e.g. us.slam()")
    if gold is None and pool is None:
        raise UnderstudyError("there is nothing to train on; pass gold, a pool, or both")
    if gold is not None and pool is None and not len(gold.training_rows()):
        raise UnderstudyError("every gold row is estimate_only: none can train; pass a pool, or other gold rows too")
    if pool is None and not options.gold_repeat:
        raise UnderstudyError("gold_repeat=0 leaves gold out, and there is no pool; pass a pool, or gold_repeat=1")


def mean_loss(scored: Scored, batch: Batch) -> Tensor:
    """See ``Session.loss``."""
    return scored.total / batch.step_rows if scored.moves else torch.zeros_like(scored.total, requires_grad=True)


def _sampling(columns: Columns) -> Tensor | None:
    """The column by which a slot wants pool rows drawn (``resample``), if there is one."""
    names = [name for name in columns if name.endswith(".sampling")]
    if len(names) > 1:
        raise UnderstudyError(f"{' and '.join(names)} both say how batches are drawn; use one of them")
    return columns[names[0]] if names else None
