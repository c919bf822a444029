# `make demo` and `make test` are all a newcomer needs; both set up `.venv` first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install demo test test-all lint docs bench clean

install: $(STAMP)

# pip compiles on one core, the tests of the dependencies too, which takes half of the time; here all cores do the rest.
$(STAMP): pyproject.toml constraints.txt setup.py src/fedveil/native/kernels.c src/fedveil/native/layer_kernels.c
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	-$(BIN)/python -m compileall -qq -j 0 -x '/tests/|/_internal/' .venv/lib
	touch $(STAMP)

demo: install
	-$(BIN)/fedveil data fetch mnist
	$(BIN)/fedveil demo

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest

test-all: lint
	$(BIN)/pytest -m ''

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "open site/index.html; with its search: $(BIN)/mkdocs serve"

# About 25 minutes on two idle cores; `make bench BENCH=--quick` takes about 5. Each line can be run by itself.
bench: install
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --requirement benchmarks/requirements.txt
	$(BIN)/python benchmarks/steps.py $(BENCH)
	$(BIN)/python benchmarks/networks.py $(if $(BENCH),--repeats 2)
	$(BIN)/python benchmarks/simulators.py $(BENCH)
ifndef BENCH
	$(BIN)/python benchmarks/rows.py
	$(BIN)/python benchmarks/noise.py
	$(BIN)/fedveil data fetch mnist
	$(BIN)/python benchmarks/attacks.py
	$(BIN)/python benchmarks/presets.py
	$(BIN)/python benchmarks/accounting.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/memory.py
endif
	$(BIN)/python benchmarks/page.py

clean:
	rm -rf .venv build dist site src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
