"""The teacher's options of ``understudy serve``: those of ``ask`` with other defaults; loads without PyTorch."""

from dataclasses import dataclass
from functools import partial

from understudy.llm.ask_options import PACE, PROMPT, SERVER, AskOptions
from understudy.store.option_fields import option

_server, _pace = partial(option, panel=SERVER), partial(option, panel=PACE)


@dataclass(frozen=True)
class TeacherOptions(AskOptions):
    model: str = _server("", help="The model to ask.", typed=str, flag="teacher_model")
    base_url: str | None = _server(
        None, help="An LLM for the deferred rows, e.g. http://localhost:8000/v1.", typed=str | None, flag="teacher_url"
    )
    key_env: str | None = _server(None, help="Environment variable with its key.", typed=str | None)
    price_in: float | None = option(None, help="Of a million tokens in.", typed=float | None, panel="Cost")
    price_out: float | None = option(None, help="Of a million tokens out.", typed=float | None, panel="Cost")
    votes: int = option(1, help="Answers per row.", panel=PROMPT)
    form: str = option("hard", help="Of the labels.")
    concurrency: int = _pace(16, help="Requests to the teacher at a time.", typed=int, least=1)
    timeout: float = _pace(20.0, help="Seconds until the student's answer is given instead.", typed=float, above=0)
    retries: int = _pace(2, help="Retries of a failed request to the teacher.", typed=int, least=0)
    again: bool = option(False, help="Repeat rows without a usable answer.")
