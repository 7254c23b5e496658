"""The options of ``us.ask``, ``understudy ask`` and the teacher of ``understudy serve``, one field each.

This file loads without PyTorch and Jinja.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.labels import ANSWER_FORMS
from understudy.store.option_fields import OptionTable, option, read_pairs, typed_option

PROMPT, SERVER, COST, PACE = "Prompt", "Server", "Cost", "Pace"


def read_aliases(texts: Sequence[str] | None) -> dict[str, str]:
    return read_pairs(texts, "alias", "WORD=CLASS", last=True)


def _read_template(path: Path | None) -> str | None:
    try:
        return None if path is None else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnderstudyError(f"cannot read {path}: {error}; name a Jinja template") from error


_prompt, _server, _cost, _pace = (partial(typed_option, panel=panel) for panel in (PROMPT, SERVER, COST, PACE))


@dataclass(frozen=True)
class AskOptions(OptionTable):
    """``model``, ``base_url``, ``key_env`` and the prices: one for all models, or one for each."""

    model: str | Sequence[str] = option(help="The model; repeat for several, one vote each.", typed=list[str])
    prompt: str | None = _prompt(None, help="A Jinja template of your own.", typed=Path | None, read=_read_template)
    descriptions: Mapping[str, str] | None = _prompt(
        None, help="What a class means; repeat for more.", typed=list[str] | None, flag="describe",
        read=partial(read_pairs, flag="describe", wanted="CLASS=DESCRIPTION"), metavar="CLASS=DESCRIPTION",
    )  # fmt: skip
    examples: Sequence[Any] = option((), help="Pairs of a row and its label, shown to the model.")
    votes: int = _prompt(1, help="Answers per row and model; the label is then their shares.", least=1)
    temperature: float | None = _prompt(None, help="Default: 0; 1 with --votes.", least=0, most=2)
    max_tokens: int | None = _prompt(None, help="Of an answer. Default: enough for a class name.", least=1)
    logprobs: int | None = _prompt(None, help="Alternatives a token; 0: none. Default: one a class.", least=0, most=20)
    structured: bool = _prompt(True, help="Constrain answers to a JSON schema.", flag="structured/--no-structured")
    aliases: Mapping[str, str] | None = _prompt(
        None, help="Another word for a class; repeat for more.", typed=list[str] | None, flag="alias",
        read=read_aliases, metavar="WORD=CLASS",
    )  # fmt: skip
    form: str = _prompt("auto", help=f"Of the labels: {', '.join(ANSWER_FORMS)}.")
    base_url: str | Sequence[str] | None = _server(
        None, help="Its address, e.g. http://localhost:8000/v1. Default: OpenAI.", typed=list[str] | None
    )
    key_env: str | Sequence[str] | None = _server(
        None, help="Environment variable with the key. Default: OPENAI_API_KEY.", typed=list[str] | None
    )
    price_in: float | Sequence[float] | None = _cost(None, help="Of a million tokens in.", typed=list[float] | None)
    price_out: float | Sequence[float] | None = _cost(None, help="Of a million tokens out.", typed=list[float] | None)
    budget: float | None = _cost(None, help="Stop before this is exceeded, over all runs.")
    concurrency: int = _pace(8, help="Requests at a time.", least=1)
    timeout: float = _pace(60.0, help="Seconds to wait for an answer.", above=0)
    retries: int = _pace(8, help="Retries of a failed request.", least=0)
    again: bool = _pace(False, help="Repeat rows without a usable answer.")
    progress: bool = option(True, help="Show progress.")


@dataclass(frozen=True)
class TeacherOptions(AskOptions):
    """Those of the teacher of ``understudy serve``: with other defaults."""

    model: str = _server("", help="The model to ask.", flag="teacher_model")
    base_url: str | None = _server(None, help="For deferred rows, e.g. http://localhost:8000/v1.", flag="teacher_url")
    key_env: str | None = _server(None, help="Environment variable with its key.")
    price_in: float | None = _cost(None, help="Of a million tokens in.")
    price_out: float | None = _cost(None, help="Of a million tokens out.")
    votes: int = option(1, help="Answers per row.", panel=PROMPT)
    form: str = option("hard", help="Of the labels.")
    concurrency: int = _pace(16, help="Requests to the teacher at a time.", least=1)
    timeout: float = _pace(20.0, help="Seconds until the student's answer is given instead.", above=0)
    retries: int = _pace(2, help="Retries of a failed request to the teacher.", least=0)
    again: bool = option(False, help="Repeat rows without a usable answer.")
