"""``understudy serve``: a trained model behind HTTP, which asks a teacher about the rows it is not sure of."""

import os
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.shared import argument, flag, loading, takes_options
from understudy.errors import UnderstudyError, optional, warn
from understudy.llm.ask_options import TeacherOptions

TOKEN = "UNDERSTUDY_TOKEN"
SERVED, DEFERRED, LOG = "The server", "Deferred rows", "Log"


@takes_options()
def serve_command(
    model: Annotated[Path, argument("The folder of a finished training, or one that export wrote.")],
    teacher: TeacherOptions,
    host: Annotated[str, flag("Another address serves other machines too; unencrypted.", panel=SERVED)] = "127.0.0.1",
    port: Annotated[int, flag("0: any that is free.", panel=SERVED, min=0, max=65535)] = 8421,
    token_env: Annotated[str, flag("Environment variable with the token that requests need.", panel=SERVED)] = TOKEN,
    threads: Annotated[int, flag("Of the net.", panel=SERVED, min=1)] = 1,
    pattern: Annotated[str | None, flag("Where messages hold the row: a regex with a group.", panel=SERVED)] = None,
    defer_below: Annotated[
        float | None, flag("Defer rows of less confidence, instead of defer's rule.", min=0, max=1, panel=DEFERRED)
    ] = None,
    ask: Annotated[Path | None, flag("A folder of understudy ask: prompt, examples, model.", panel=DEFERRED)] = None,
    log: Annotated[Path | None, flag("Folder of what was answered; needed with a teacher.", panel=LOG)] = None,
    log_content: Annotated[bool, flag("Keep the rows themselves too.", "--log-content", panel=LOG)] = False,
) -> None:
    """Serve a model: `POST /predict`, and OpenAI's chat completions for programs that call an LLM today.

    A request to `/predict` is `{"rows": ["a text", …]}` (or columns by name). A program that uses OpenAI's protocol
    changes its address to `http://127.0.0.1:8421/v1` and gets a class name as the answer: the row is the last message
    of the user. With `--teacher-url`, rows that the model is not sure of (`understudy defer`) go to that LLM; where it
    fails or takes longer than `--timeout`, the answer is the model's own, marked.

    With `--log`, every answer is on the disk before it is sent; with `--log-content` the rows too, as a table that
    `select`, `label`, `estimate` and `watch` read. SIGHUP or `POST /reload` reads the folder again; SIGTERM answers
    what was accepted, then ends. The server is for this machine alone unless `--host` names another address; then a
    token is needed.

    Examples:

    `understudy serve runs/first`

    `understudy serve runs/first --teacher-url https://llm.example/v1 --teacher-model big --key-env KEY --log served`
    """
    if teacher.base_url is not None and log is None:
        raise UnderstudyError("--teacher-url needs --log FOLDER, where answers and costs are kept")
    if log_content and log is None:
        raise UnderstudyError("--log-content needs --log FOLDER, where rows are kept")
    compiled = _compiled(pattern)
    with loading():
        from understudy.serving.served_model import NEEDS

        for module in ("starlette", "uvicorn"):
            optional(module, NEEDS, "serve")
        from understudy.serving.service import STRANGER, Service, Settings, reload_waits
        from understudy.store.files import locked
        from understudy.web.access import Access
        from understudy.web.server import LOOPBACK, HttpServer

    token = os.environ.get(token_env, "").strip()
    if host not in LOOPBACK:
        if len(token) < 16:
            raise UnderstudyError(f"--host {host} needs a token of 16 letters or more in the environment: {token_env}")
        warn(f"requests to {host} are not encrypted: rows, answers and the token can be read on the network")
    access = Access(host, {"": token} if token else {}, "understudy-serve", STRANGER, False, frozenset({"/health"}))
    settings = Settings(
        model, log, log_content, defer_below, compiled, teacher if teacher.base_url is not None else None, ask, threads
    )
    # Before the log is opened, which cuts off a half-written line: it may be that of a server at work.
    with reload_waits(), nullcontext() if log is None else locked(log, lend=True):
        service = Service(settings, access)
        server = HttpServer(
            service.asgi, host=host, port=port, name="serve", grace=int(teacher.timeout) + 5, lifespan="on",
            limit_concurrency=2_000,
        )  # fmt: skip
        served = service.worker.served
        typer.echo(f"{served.name} (version {served.version}): {server.address}")
        server.run()


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise UnderstudyError(f"--pattern {pattern!r} is no regular expression ({error}); correct it") from error
    if not compiled.groups:
        raise UnderstudyError(f"--pattern {pattern!r} has no group for the row; write e.g. 'Text: (.*)'")
    return compiled
