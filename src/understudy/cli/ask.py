"""``understudy ask``: labels for a pool from an LLM."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import shared
from understudy.errors import UnderstudyError
from understudy.labels.llm import FORMS

PROMPT, SERVER, MONEY, PACE, BATCHES = "Prompt", "Server", "Cost", "Pace", "Batches"


def _option(help: str, panel: str, *names: str, default: bool = False, metavar: str | None = None) -> object:
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=default, metavar=metavar)


def ask_command(
    pool: Annotated[Path, typer.Option(help="The rows, of any kind that train reads, with ids.", show_default=False)],
    classes: Annotated[str, typer.Option(help="The classes, e.g. neg,pos.", show_default=False)],
    model: Annotated[list[str], typer.Option(help="The model; repeat for several voters.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder of the answers and labels; the same one goes on.")] = Path("asked"),
    text: Annotated[str | None, typer.Option(help="The column of texts. Without: the only one.")] = None,
    gold: Annotated[
        Path | None, typer.Option(help="Trusted labels: for --examples; rows of its own are asked too.")
    ] = None,
    column: shared.Column = None,
    prompt: Annotated[Path | None, _option("A Jinja template of your own.", PROMPT)] = None,
    describe: Annotated[
        list[str] | None, _option("What a class means; repeat for more.", PROMPT, metavar="CLASS=WORDS")
    ] = None,
    examples: Annotated[
        int, _option("Gold rows to show with their labels; they then train and never estimate.", PROMPT, default=True)
    ] = 0,
    seed: Annotated[int, _option("Which gold rows are shown.", PROMPT, default=True)] = 0,
    votes: Annotated[int, _option("Ask so often; the label is the shares.", PROMPT, default=True)] = 1,
    temperature: Annotated[float | None, _option("Without: 0, or 1 with --votes.", PROMPT)] = None,
    max_tokens: Annotated[int | None, _option("Of an answer. Without: enough for a class name.", PROMPT)] = None,
    logprobs: Annotated[int | None, _option("Alternatives per token; 0: none. Without: as classes.", PROMPT)] = None,
    plain: Annotated[bool, _option("Do not ask for structured answers.", PROMPT, "--plain")] = False,
    alias: Annotated[
        list[str] | None, _option("Another word for a class; repeat for more.", PROMPT, metavar="WORD=CLASS")
    ] = None,
    form: Annotated[str, _option(f"Of the labels: {', '.join(FORMS)}.", PROMPT, default=True)] = "auto",
    base_url: Annotated[
        list[str] | None, _option("Where it answers, e.g. http://localhost:8000/v1. Without: OpenAI.", SERVER)
    ] = None,
    key_env: Annotated[
        list[str] | None, _option("Environment variable with the key. Without: OPENAI_API_KEY.", SERVER)
    ] = None,
    price_in: Annotated[list[float] | None, _option("Of a million tokens in.", MONEY)] = None,
    price_out: Annotated[list[float] | None, _option("Of a million tokens out.", MONEY)] = None,
    budget: Annotated[float | None, _option("Stop before this is passed, over all runs.", MONEY)] = None,
    dry_run: Annotated[bool, _option("Count rows, tokens and price; send nothing.", MONEY, "--dry-run")] = False,
    concurrency: Annotated[int, _option("Requests at a time.", PACE, default=True)] = 8,
    timeout: Annotated[float, _option("Seconds to wait for an answer.", PACE, default=True)] = 60.0,
    retries: Annotated[int, _option("Repetitions of a request that failed.", PACE, default=True)] = 8,
    again: Annotated[bool, _option("Ask again about rows without a usable answer.", PACE, "--again")] = False,
    quiet: shared.Quiet = False,
    batch: Annotated[
        bool, _option("Write request files for a batch service; send nothing.", BATCHES, "--batch")
    ] = False,
    batch_output: Annotated[list[Path] | None, _option("Read such a service's output; repeat.", BATCHES)] = None,
) -> None:
    """Ask an LLM about every row of a pool, at any server that speaks OpenAI's protocol.

    OUT gets `pool.parquet`, the pool with the labels beside: what `audit`, `reconcile` and `train` take. Every answer
    is on the disk before anything else is done with it; stopped or killed at any moment, the same command goes on where
    it was and pays for nothing twice. What the server does not take (log-probabilities, structured answers, several
    choices) is left out. An answer outside the classes gets no label; a table says what became of every answer, and
    what helps.

    Several `--model` are several voters; `--base-url`, `--key-env` and the prices are then one for all, or one for each
    in the same order. The key is read from the environment and written nowhere. Gold rows shown as `--examples` are
    not asked about and are marked in OUT (`teacher_saw`): whatever is trained on it lets them train, never estimate.

    Examples:

    `understudy ask --pool reviews.csv --classes neg,pos --model llama3 --base-url http://localhost:11434/v1 --dry-run`

    `understudy ask --pool reviews.csv --classes neg,pos --model gpt-5-mini --gold gold.csv --examples 4
    --price-in 0.25 --price-out 2 --budget 5 --out asked`

    `understudy train --gold gold.csv --pool asked/pool.parquet --out run`
    """
    names = [name.strip() for name in classes.split(",")]
    if batch and (batch_output or dry_run or again):
        raise UnderstudyError("--batch writes request files and does nothing else; leave the other options for later")
    template = _read_prompt(prompt)
    with shared.loading():
        from understudy.cli.ask_summary import take_output, tell, tell_batches, tell_estimate
        from understudy.cli.asked import AskedFiles
        from understudy.cli.import_answers import aliases_of
        from understudy.llm.asking import check_stopped
        from understudy.llm.batch import pending
        from understudy.llm.plan import make_plan
        from understudy.store.files import locked

    files = AskedFiles.read(
        pool, gold, names, text=text, columns=shared.read_mapping(column), as_rows=prompt is not None
    )
    shown = files.examples(examples, seed)
    plan = make_plan(
        names, model, base_url=base_url, key_env=key_env, price_in=price_in or 0.0, price_out=price_out or 0.0,
        descriptions=_described(describe or []), examples=[files.example(place) for place in shown], prompt=template,
        prompt_name="the prompt" if prompt is None else str(prompt), votes=votes, temperature=temperature,
        max_tokens=max_tokens, logprobs=logprobs, structured=not plain, retries=retries, form=form,
        aliases=aliases_of(alias or []),
    )  # fmt: skip
    if dry_run:
        tell_estimate(files.asking(plan, out, shown), budget)
        return
    with locked(out, lend=True):
        asking = files.asking(plan, out, shown)
        asking.begin()
        if again:
            asking.forget_unusable()
        if batch:
            tell_batches(asking)
            return
        try:
            if batch_output:
                take_output(asking, batch_output)
            else:
                asking.run(
                    budget=budget, concurrency=concurrency, timeout=timeout, progress=not quiet,
                    without=pending(asking),
                )  # fmt: skip
        finally:
            found = asking.labelled()
            files.write(out, found, shown)
    tell(files, found, out, gold)
    check_stopped(found.stopped)


def _read_prompt(path: Path | None) -> str | None:
    try:
        return None if path is None else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnderstudyError(f"cannot read {path}: {error}; name a Jinja template") from error


def _described(given: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for text, (name, sign, words) in zip(given, pairs, strict=True):
        if not (name.strip() and sign and words.strip()):
            raise UnderstudyError(f"--describe {text!r}: write CLASS=WORDS")
    return {name.strip(): words.strip() for name, _, words in pairs}
