"""What is quoted of another library's error."""

import torch

from understudy.errors import first_line


def test_the_first_line_says_enough() -> None:
    assert first_line(ValueError("\n  bad magic number.\nand a page more")) == "bad magic number"
    assert first_line(OSError()) == "OSError"
    try:
        torch.nn.Linear(2, 2).load_state_dict({})
    except RuntimeError as error:
        said = first_line(error)
    assert said.startswith("Error(s) in loading state_dict for Linear: Missing key(s)") and "\n" not in said
    assert len(first_line(ValueError("x" * 10_000))) == 200
