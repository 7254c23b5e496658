# Two commands matter: `make demo` and `make test`. Both set up .venv on first use and reinstall nothing afterwards.
PYTHON ?= python3
BIN := .venv/bin
# More than one thread slows small models down, and makes sums depend on the machine.
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: demo test lint types fast bench results clean
.DEFAULT_GOAL := test

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: .venv/.installed
	$(BIN)/understudy demo

test: lint types
	$(BIN)/pytest -n 2

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed
	$(BIN)/mypy

fast: .venv/.installed
	$(BIN)/pytest -m "not slow"

bench: .venv/.installed
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
