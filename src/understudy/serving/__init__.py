"""A model behind HTTP (extra ``serve``): ``/predict``, and OpenAI's protocol for programs that call an LLM today.

``served_model`` predicts, many requests at once; ``teacher_client`` asks an LLM about deferred rows with the code of
``llm/``; ``chat_protocol`` reads and writes chat completions; ``answer_log`` keeps what was answered, ``live_figures``
counts it; ``service`` has the routes. Nothing here loads PyTorch or anything that trains.
"""
