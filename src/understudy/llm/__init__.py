"""Asking an LLM (extra ``llm``): labels for a pool from any endpoint that speaks OpenAI's chat completions.

``asking.ask`` is ``us.ask``. A ``prompt`` makes one request of one row; an ``endpoint`` sends it to one model at one
server, with what that server takes (``features``); a ``voter`` asks until there is an answer, the ``ledger`` keeps to
the budget, the ``journal`` puts every answer on the disk before anything else is done with it; ``answered`` makes
labels of them. ``batch`` does the same by files.
"""
