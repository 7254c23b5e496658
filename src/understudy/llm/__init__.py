"""Labels from an LLM (extra ``llm``), at any endpoint that speaks OpenAI's chat completions.

``asking.ask`` is ``us.ask``, which makes labels of the answers. ``request`` makes the messages about one row and the
body, a ``requester`` sends it to one model at one server and repeats until there is an answer, the ``ledger`` keeps to
the budget, and its journal puts every answer on the disk before it is used (``answer_folder``). ``ask_files`` reads and
writes the files of the command, and those of batch services.
"""
