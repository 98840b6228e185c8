# `make reproduce`, `make test`, `make bench` and `make docs` set up all they need. `make test-random` is
# for long runs: property tests with examples that no run has had before; `make test-oldest` runs the tests with the
# lowest versions that pyproject.toml allows; `make dist-test` tests the packages that a release would publish.
PYTHON ?= python3

# Installs packages in seconds, where there is one; `make UV=` takes pip.
UV ?= $(shell command -v uv 2>/dev/null)
export UV

VENV := .venv
BIN := $(VENV)/bin

# The peers of the benchmark are heavy and stay out of the other environment.
BENCH := .venv-bench

# Sphinx and its themes; the examples of the gallery run here.
DOCS := .venv-docs

# Builds packages, and looks for known weaknesses of what we need.
RELEASE := .venv-release

# The oldest NumPy that we allow has no wheels for the newest versions of Python.
OLDEST := .venv-oldest
$(OLDEST)/.test: PYTHON := python3.11

# Old packages warn of what newer ones have changed since, pyparsing under matplotlib for one; nobody can mend that.
OLD_WARNINGS := $(foreach kind,DeprecationWarning PendingDeprecationWarning FutureWarning,-W default::$(kind))

# One test process per core: with more than one BLAS thread each they would fight for the cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Half of the time to collect the tests goes into compiling them, unless a former run may leave them compiled.
COMPILED := PYTHONDONTWRITEBYTECODE=

# What users may install, for tests of all of it.
EXTRAS := paper,tables,onnx,serve,dask

.PHONY: reproduce test fuzz test-random test-oldest bench docs dist-test audit clean

reproduce: $(VENV)/.report
	$(BIN)/lrml reproduce --out results $(REPRODUCE_OPTIONS)

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(ONE_THREAD) $(COMPILED) $(BIN)/pytest -n auto --dist worksteal

test-random: $(VENV)/.test
	for round in $$(seq $(or $(ROUNDS),10)); do \
	  $(ONE_THREAD) $(COMPILED) $(BIN)/pytest -n auto -m hypothesis --hypothesis-profile=random || exit 1; \
	done

# What is read from others, changed at random: model files, requests, data files. Repeatable: `make fuzz SEED=7`.
fuzz: $(VENV)/.test
	$(ONE_THREAD) $(COMPILED) $(BIN)/pytest -n auto -m hypothesis --hypothesis-profile=fuzz \
	  --hypothesis-seed=$(or $(SEED),0) tests/storage/test_malice.py tests/serving/test_rows.py tests/datasets

test-oldest: $(OLDEST)/.test
	$(ONE_THREAD) $(COMPILED) $(OLDEST)/bin/pytest -n auto --dist worksteal $(OLD_WARNINGS)

docs: $(DOCS)/.docs
	rm -rf docs/api docs/commands
	$(ONE_THREAD) $(DOCS)/bin/python -m sphinx --fail-on-warning --keep-going --jobs auto -b html docs build/site

dist-test: $(RELEASE)/.release
	rm -rf dist
	$(RELEASE)/bin/python -m build --outdir dist .
	$(RELEASE)/bin/python -m twine check --strict dist/*
	$(RELEASE)/bin/python scripts/packages.py dist

audit: $(RELEASE)/.release
	$(RELEASE)/bin/pip-audit --skip-editable

bench: $(BENCH)/.peers
	$(BENCH)/bin/python benchmarks/suite.py --out results/bench.json $(BENCH_OPTIONS)

# One stamp per extra: installing the larger set satisfies the smaller one. No stamp stands while packages change.
SET_UP = @rm -f $(@D)/.report $(@D)/.test && $(PYTHON) scripts/environment.py $(@D)

$(VENV)/.report: pyproject.toml
	$(SET_UP) '.[paper,tables,serve,onnx]'
	@touch $@

$(VENV)/.test: pyproject.toml
	$(SET_UP) '.[$(EXTRAS)]' --group test
	@touch $@ $(VENV)/.report

$(OLDEST)/.test: pyproject.toml
	$(SET_UP) '.[$(EXTRAS)]' --group test --oldest
	@touch $@

$(DOCS)/.docs: pyproject.toml
	$(SET_UP) '.[$(EXTRAS)]' --group docs
	@touch $@

$(RELEASE)/.release: pyproject.toml
	$(SET_UP) '.[$(EXTRAS)]' --group release
	@touch $@

$(BENCH)/.peers: pyproject.toml benchmarks/requirements.txt
	$(SET_UP) '.[plots]'
	sed 's/#.*//' benchmarks/requirements.txt | while read -r peer; do \
	  [ -z "$$peer" ] || $(BENCH)/bin/python -m pip install --quiet "$$peer" || echo "left out: $$peer"; \
	done
	@touch $@

# The numeric tests with several kernels of OpenBLAS, which differ in the last digits, each with one and two
# threads. The kernels are the same in every namespace; the strict one is slow.
NUMERIC := tests/test_blas_kernels.py tests/core/test_penalties.py tests/core/test_quadratic.py tests/core/test_losses.py \
  tests/core/test_arrays.py tests/core/test_moments.py tests/core/test_rows.py tests/test_metrics.py \
  tests/test_thresholds.py tests/test_evaluation.py tests/test_inspection.py tests/solvers tests/estimators \
  tests/theory tests/completion
KERNELS ?= Nehalem Haswell Zen $(shell grep -qs avx512vl /proc/cpuinfo && echo SkylakeX)
THREADS ?= 1 2

.PHONY: test-kernels
test-kernels: $(VENV)/.test
	@failed=; for kernel in $(KERNELS); do for threads in $(THREADS); do \
	  echo "Kernels for $$kernel, threads: $$threads"; \
	  OPENBLAS_CORETYPE=$$kernel OMP_NUM_THREADS=$$threads OPENBLAS_NUM_THREADS=$$threads $(COMPILED) \
	    $(BIN)/pytest -q -n auto --dist worksteal -k "not strict and not oldest" \
	    --ignore=tests/estimators/test_door.py $(NUMERIC) || failed="$$failed $$kernel/$$threads"; \
	done; done; \
	if [ -n "$$failed" ]; then echo "Failed (kernels/threads):$$failed"; exit 1; fi

clean:
	rm -rf $(VENV) $(BENCH) $(OLDEST) $(DOCS) $(RELEASE) build dist docs/api docs/gallery docs/commands results .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
