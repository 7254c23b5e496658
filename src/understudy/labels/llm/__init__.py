"""What an LLM answered, as teacher labels: lines of JSON in, classes and probabilities out (see ``llm/answers.py``)."""
