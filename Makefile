.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# The PyTorch index has wheels without CUDA; torch alone is looked up there, so that all else keeps its usual source.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

.PHONY: help demo test lint clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

$(READY): pyproject.toml constraints.txt
	@echo "Setting up .venv (once; a few minutes on a slow line)"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, found " + sys.version.split()[0] + "; try: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --retries 1 --constraint constraints.txt --no-deps --extra-index-url $(TORCH_INDEX) torch
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)  ## translate 500 medical sentences with the shipped model and score them
	@echo "Translating demo/medical.test.tsv (German to English, 500 sentences of the European Medicines Agency)"
	@echo "with demo/de-en-small, which has never seen a medical text, and scoring the result against the reference."
	@echo
	@$(BIN)/knnmt evaluate demo/medical.test.tsv --model demo/de-en-small
	@echo
	@echo "Next, translate a sentence of your own:"
	@echo "  echo 'Wie hoch ist die Dosis?' | $(BIN)/knnmt translate --model demo/de-en-small"

test: lint  ## lint, type-check and run the test suite
	@$(BIN)/pytest --quiet

lint: $(READY)  ## ruff and mypy
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy src
	@$(BIN)/mypy --allow-untyped-defs --allow-incomplete-defs --allow-untyped-calls tests

clean:  ## remove the virtual environment and everything built
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
