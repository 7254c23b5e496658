"""Labels from an LLM (extra ``llm``), at any endpoint that speaks OpenAI's chat completions.

``asking.ask`` is ``us.ask``. A ``prompt`` makes the messages about one row, ``request`` the body; an ``endpoint`` sends
it to one model at one server, a ``requester`` repeats until there is an answer, the ``ledger`` keeps to the budget, the
``journal`` puts every answer on the disk before it is used; ``answer_folder`` makes labels of them. ``batch_files``
does the same through a batch service; ``ask_files`` reads and writes the files of the command.
"""
