"""The public names for type checkers and editors; ``__init__.py`` loads each when it is first used."""

from typing import Any

from understudy import maths as maths
from understudy import models as models
from understudy.acquisition.select import select as select
from understudy.acquisition.select import selection_probability as selection_probability
from understudy.active.label_plan import plan_labels as plan_labels
from understudy.auditing.audit import audit as audit
from understudy.auditing.deferral import defer as defer
from understudy.auditing.pool_estimates import estimate as estimate
from understudy.auditing.teacher_watch import TeacherWatch as TeacherWatch
from understudy.comparison.auto import auto as auto
from understudy.comparison.compare import compare as compare
from understudy.data import augment as augment
from understudy.data import noise as noise
from understudy.data.examples import Gold as Gold
from understudy.data.examples import Pool as Pool
from understudy.data.leaks import leaks_between as leaks_between
from understudy.data.rows import mapped_rows as mapped_rows
from understudy.data.splits import Splits as Splits
from understudy.data.splits import cross_fit as cross_fit
from understudy.data.splits import cross_fitted_alpha as cross_fitted_alpha
from understudy.data.splits import split as split
from understudy.errors import UnderstudyError as UnderstudyError
from understudy.errors import UnderstudyWarning as UnderstudyWarning
from understudy.hf.text import text as text
from understudy.inference.export import export as export
from understudy.inference.passes import evaluate as evaluate
from understudy.inference.teacher import Passes as Passes
from understudy.inference.teacher import stochastic_passes as stochastic_passes
from understudy.inference.teacher import teach as teach
from understudy.inference.teacher import teacher_features as teacher_features
from understudy.io.read import read_examples as read_examples
from understudy.labels.answer_labels import read_answers as read_answers
from understudy.labels.forms import Hard as Hard
from understudy.labels.forms import Soft as Soft
from understudy.labels.label_store import LabelStore as LabelStore
from understudy.labels.label_store import label_missing as label_missing
from understudy.labels.reliability import Reliability as Reliability
from understudy.labels.soft import TopK as TopK
from understudy.labels.votes import Votes as Votes
from understudy.labels.votes import fit_votes as fit_votes
from understudy.llm.asking import ask as ask
from understudy.maths.alignment.aligner import alignment as alignment
from understudy.methods import METHODS as METHODS
from understudy.model import Model as Model
from understudy.model import fit as fit
from understudy.model import load as load
from understudy.objective import Objective as Objective
from understudy.parallel.map_shards import map_shards as map_shards
from understudy.parallel.ray_tasks import ray as ray
from understudy.reconciling.relabel import reconcile as reconcile
from understudy.samples import digits as digits
from understudy.store.remote import unlock as unlock
from understudy.training.automatic_options import default_student as default_student
from understudy.training.automatic_options import l2_of_c as l2_of_c
from understudy.training.averages import EMA as EMA
from understudy.training.callbacks import Callback as Callback
from understudy.training.callbacks import LogTo as LogTo
from understudy.training.callbacks import MLflow as MLflow
from understudy.training.callbacks import TensorBoard as TensorBoard
from understudy.training.callbacks import WandB as WandB
from understudy.training.run import Run as Run
from understudy.training.session import Session as Session
from understudy.training.train import train as train

__version__: str
__all__: list[str]

def __getattr__(name: str) -> Any:
    """The methods (``us.slam`` …) and what their files export."""
