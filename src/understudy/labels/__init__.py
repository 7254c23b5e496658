"""A teacher's labels: their forms (``forms.py``), the classes' names, its reliability, a store of labels by id."""

#: Forms of labels that an LLM's answers can be read as; ``auto``: the most informative one they allow.
ANSWER_FORMS = ("auto", "hard", "topk", "probs", "shares")
