# Two commands are all a fresh machine needs: `make demo` and `make test`.
# The environment lives in .venv; a stamp file per set of extras keeps second runs incremental.
# ARGS goes to what is run: make pytest ARGS=tests/core, make demo ARGS="--out runs/second".

PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test lint types imports pytest docs space bench results clean

help:  ## Show what can be made
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

demo: .venv/.training  ## Set up, then train a small model from nothing and show before and after
	$(BIN)/sql-env demo $(ARGS)

test: lint types imports pytest  ## Set up, then lint, types, import rule, tests

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev
	$(BIN)/mypy

imports: .venv/.dev
	$(BIN)/lint-imports

pytest: .venv/.dev
	$(BIN)/pytest -n 2 --dist loadfile $(ARGS)

docs: .venv/.dev  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

space: .venv/.dev  ## Assemble the folder that `openenv push` takes, in build/space/
	$(BIN)/python scripts/assemble_space.py

bench: .venv/.dev  ## Run every benchmark; each prints ratios against peers
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

# torch first and pinned: a looser requirement would pull the newest CUDA build.
.venv/.torch: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	touch $@

.venv/.training: .venv/.torch pyproject.toml
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[server,training]'
	touch $@

.venv/.dev: .venv/.torch pyproject.toml
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[server,training,inspect,skyrl,ray,notebook,dev]'
	touch $@ .venv/.training

results: .venv/.dev  ## Write the tables of docs/results.md from the runs in results/
	$(BIN)/python -m tools.results page

clean:  ## Remove what was built (.venv included)
	rm -rf .venv build dist site
