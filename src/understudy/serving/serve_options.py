"""The teacher's options of ``understudy serve``: those of ``ask`` with other defaults; loads without PyTorch."""

from dataclasses import dataclass
from functools import partial

from understudy.llm.ask_options import COST, PACE, PROMPT, SERVER, AskOptions
from understudy.store.option_fields import option, typed_option

_server, _cost, _pace = (partial(typed_option, panel=panel) for panel in (SERVER, COST, PACE))


@dataclass(frozen=True)
class TeacherOptions(AskOptions):
    model: str = _server("", help="The model to ask.", flag="teacher_model")
    base_url: str | None = _server(
        None, help="An LLM for the deferred rows, e.g. http://localhost:8000/v1.", flag="teacher_url"
    )
    key_env: str | None = _server(None, help="Environment variable with its key.")
    price_in: float | None = _cost(None, help="Of a million tokens in.")
    price_out: float | None = _cost(None, help="Of a million tokens out.")
    votes: int = option(1, help="Answers per row.", panel=PROMPT)
    form: str = option("hard", help="Of the labels.")
    concurrency: int = _pace(16, help="Requests to the teacher at a time.", least=1)
    timeout: float = _pace(20.0, help="Seconds until the student's answer is given instead.", above=0)
    retries: int = _pace(2, help="Retries of a failed request to the teacher.", least=0)
    again: bool = option(False, help="Repeat rows without a usable answer.")
