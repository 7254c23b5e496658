# Two commands matter: `make demo` and `make test`. Both set up .venv on first use and reinstall nothing afterwards.
PYTHON ?= python3
BIN := .venv/bin
# More than one thread slows small models down, and makes sums depend on the machine.
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
# Without compiled files every process of the suite would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: ask-torture coverage ray demo test lint types fast docs figures notebooks torture distributed meaning bench profile reproduce results alternatives clean
PEERS := .peers/bin/python
.DEFAULT_GOAL := test

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: .venv/.installed
	$(BIN)/understudy demo

# A file stays in one process, which builds its fixtures (a cluster, a server, a browser) once.
test: lint types
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed
	$(BIN)/mypy

fast: .venv/.installed
	$(BIN)/pytest -m "not slow and not torture"

.venv/.docs: .venv/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

# The site, into build/site; a link that leads nowhere ends it. Nothing is downloaded.
docs: .venv/.docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going -q -E -b html docs build/site
	@echo build/site/index.html

# The pictures of the start page and of "Comparing methods"; every other one is written by the experiment beside it.
figures: .venv/.installed
	$(BIN)/python docs/figures/problem.py
	$(BIN)/python docs/figures/settings.py

# The notebooks, from the scripts beside them, with their output: some minutes of one core.
notebooks: .venv/.installed
	$(BIN)/python docs/notebooks/execute.py

# The peers live in an environment of their own, so that their pins never meet ours.
.peers/.installed: constraints.txt benchmarks/peers.txt
	$(PYTHON) -m venv .peers
	.peers/bin/pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	touch $@

# A hundred SIGKILLs for each of four methods, twenty of a loop, a hundred accidents to every file; the suite has a few.
torture: .venv/.installed
	$(BIN)/pytest -n 2 -m torture
	folder=$$(mktemp -d) && $(BIN)/python tests/training/kill_training.py "$$folder" 100; status=$$?; rm -rf "$$folder"; exit $$status
	folder=$$(mktemp -d) && $(BIN)/python tests/active/kill_and_resume.py "$$folder" 20; status=$$?; rm -rf "$$folder"; exit $$status
	PYTHONPATH=tests $(BIN)/python -m fuzz.corruption --count 100

# Every method by two processes beside one, and ten SIGKILLs for each of four, resumed by two processes and by one.
distributed: .venv/.installed
	$(BIN)/python -m tests.training.distributed_training methods
	folder=$$(mktemp -d) && $(BIN)/python -m tests.training.distributed_training kills "$$folder" 10; status=$$?; rm -rf "$$folder"; exit $$status

# An LLM's server with faults: 2,000 rows, 20 SIGKILLs, budgets, hostile rows; the suite has some.
ask-torture: .venv/.installed
	folder=$$(mktemp -d) && $(BIN)/python tests/llm/torture.py "$$folder"; status=$$?; rm -rf "$$folder"; exit $$status

# Three thousand tables whose meaning is known, through train, predict and select; the suite has some.
meaning: .venv/.installed
	PYTHONPATH=tests $(BIN)/python -m fuzz.meaning 3000

# Teach, predict and select over 200 shards on a local Ray cluster: same bytes, a worker killed, speed, memory.
ray: .venv/.installed
	$(BIN)/python -m benchmarks.sharded_passes

bench: .venv/.installed .peers/.installed
	UNDERSTUDY_PEERS=$(PEERS) $(BIN)/python -m benchmarks --out docs/benchmarks

# Where the CPU seconds of whole trainings go, by phase.
profile: .venv/.installed
	for rows in 2000 20000; do $(BIN)/python -m benchmarks.profile_job --rows $$rows; done

# Every table and figure of the papers at its reduced scale, 300 CPU minutes; goes on where it was stopped.
reproduce: .venv/.installed
	$(BIN)/python -m experiments.reproduce --workers 2

# The longer experiments on the data at hand: some hours on one core.
results: .venv/.installed
	$(BIN)/python -m experiments.distillation_methods --setting honest --out 'docs/results/distillation.md#distillation_honest'
	$(BIN)/python -m experiments.distillation_methods --setting paper --out 'docs/results/distillation.md#distillation_paper'
	$(BIN)/python -m experiments.air_fashion_mnist --out 'docs/results/noisy_labels.md#air_fashion_mnist'
	$(BIN)/python -m experiments.reweight_mnist --out 'docs/results/noisy_labels.md#reweight_mnist'
	$(BIN)/python -m experiments.noisy_labels --out 'docs/results/noisy_labels.md#noisy_labels'
	$(BIN)/python -m experiments.heteroskedastic --out 'docs/results/active_learning.md#heteroskedastic'
	$(BIN)/python -m experiments.weighted_page --out 'docs/results/distillation.md#weighted'
	$(BIN)/python -m experiments.results

# Every printed interval against simulated data whose truth is known: about an hour; goes on where it was stopped.
coverage: .venv/.installed
	$(BIN)/python -m experiments.coverage --workers 2 --out docs/results/coverage.md

# Ours beside logistic regression, cleanlab and Snorkel; experiments/frozen.py says how to get the frozen nets.
alternatives: .venv/.installed .peers/.installed
	UNDERSTUDY_PEERS=$(PEERS) $(BIN)/python -m experiments.alternatives --workers 2 --out 'docs/results/alternatives.md#alternatives'

clean:
	rm -rf .venv .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
