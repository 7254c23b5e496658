"""What an LLM answered, as teacher labels: lines of JSON in, classes and probabilities out (see ``llm/answers.py``)."""

FORMS = ("auto", "hard", "topk", "probs", "shares")
"""What answers can become; ``auto``: as much as they hold."""
