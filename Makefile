# Two commands: `make reproduce` and `make test`. Both set up all they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# One test process per core: with more than one BLAS thread each they would fight for the cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: reproduce test bench clean

reproduce: $(VENV)/.plots
	$(BIN)/lrml reproduce --out results

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(ONE_THREAD) $(BIN)/pytest -n auto --dist worksteal

bench: $(VENV)/.test
	$(BIN)/python benchmarks/solver.py --out results

# One stamp per extra: installing the larger set satisfies the smaller one.
$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("lrml needs Python 3.11 or newer, this is %d.%d; set PYTHON=python3.x" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.plots: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[plots]'
	touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@ $(VENV)/.plots

clean:
	rm -rf $(VENV) results .mypy_cache .pytest_cache .ruff_cache .hypothesis
