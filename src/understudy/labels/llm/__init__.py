"""An LLM's answers as teacher labels: lines of JSON in, classes and probabilities out (see ``answer_labels.py``)."""

#: Forms of labels that answers can be read as; ``auto``: the most informative one they allow.
FORMS = ("auto", "hard", "topk", "probs", "shares")
