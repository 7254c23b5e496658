"""Rows to other labelling tools and answers back, as plain files: Label Studio, Prodigy, Argilla, ``datasets``.

``tasks`` is what goes out, ``opinions`` what comes back; each tool has a file with ``write`` and ``read``, and a line
in ``tools``.
"""

TOOLS = ("label-studio", "prodigy", "argilla", "datasets")
FORMS = ("answers", "agreed", "votes")
"""What several people's answers can become."""
ROW = "row_id"
"""The entry of a task that holds its row's id. Not ``id``: in Label Studio's small exports that is its own number."""
QUESTION = "label"
"""What the question for the class is called in what we write."""
