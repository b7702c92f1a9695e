# make demo | test | test-clients | test-mbi | test-spark | hooks | check | coverage | slow | mutants | versions | wheel | bench | docs | site
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
CLIENTS := postgresql-client odbc-postgresql unixodbc libpostgresql-jdbc-java default-jdk-headless chromium \
	$(if $(shell command -v npm),,nodejs npm) libdbd-pg-perl php-cli php-pgsql ruby-pg r-cran-rpostgresql libkrb5-dev gcc libc6-dev \
	libreoffice-base libreoffice-sdbc-postgresql python3-uno
JAVA := default-jre-headless
DRIVERS := pyodbc pexpect
QUICK := architecture cases mutants/test_places.py unit/catalog unit/sql
LATER := $(foreach kind,bi functions joins keys pairs steps subqueries,--deselect 'tests/cases/test_cases.py::test_accepted[$(kind)')

# Tests start hundreds of processes; where the environment forbids to keep bytecode, each compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE
# Workers share the cores already.
export OPENBLAS_NUM_THREADS := 1

.PHONY: demo test tests test-clients test-mbi test-spark hooks check quick lint coverage slow mutants versions wheel bench docs site clean

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev,demo]'
	touch $(READY)

demo: $(READY)
	$(BIN)/dpquery demo demo

test: $(READY)
	$(MAKE) --jobs=2 lint tests

tests: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not clients and not spark"

test-clients: $(READY)
	$(if $(filter 0,$(shell id -u)),,sudo )apt-get install -y --no-install-recommends $(CLIENTS)
	$(BIN)/python -m pip install --quiet $(DRIVERS)
	$(BIN)/python -m pytest -m "not slow" tests/server/clients

test-mbi: $(READY)
	$(BIN)/python -m pip install --quiet 'mbi>=2,<3'
	$(BIN)/python -m pytest tests/mbi/test_beside_mbi.py

test-spark: $(READY)
	java -version || $(if $(filter 0,$(shell id -u)),,sudo )apt-get install -y --no-install-recommends $(JAVA)
	$(BIN)/python -m pip install --quiet --editable '.[spark]'
	$(BIN)/python -m pytest -m spark tests/spark/test_spark.py
	$(BIN)/python -m tests.backends.conformance --backend spark -k "not random"
	$(BIN)/python -m tests.backends.conformance --backend spark --shards 2 -k "merges or private or sessions"

lint: $(READY)
	$(BIN)/ruff check conftest.py dpquery tests benchmarks
	$(BIN)/ruff format --check conftest.py dpquery tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

hooks: $(READY)
	$(BIN)/python -m pip install --quiet pre-commit
	$(BIN)/pre-commit install --hook-type pre-commit --hook-type commit-msg

check: $(READY)
	$(MAKE) --jobs=2 lint quick

quick: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not clients and not spark" $(LATER) $(addprefix tests/,$(QUICK))

coverage: $(READY)
	$(BIN)/python -m coverage run -m pytest -m "not slow and not clients and not spark" tests/unit/units tests/unit/kernel tests/unit/ledger tests/properties
	$(BIN)/python -m coverage report

slow: $(READY)
	$(BIN)/python -m pytest -m slow

mutants: $(READY)
	$(BIN)/python -m tests.mutants.run

versions: $(READY)
	$(BIN)/python -m tests.packaging.versions

site: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

wheel: site
	$(BIN)/python -m tests.packaging.wheel

bench: $(READY)
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.tpch
	$(BIN)/python -m benchmarks.clickbench
	$(BIN)/python -m benchmarks.peers

docs: $(READY)
	$(BIN)/python -m tests.docs.generate
	$(BIN)/python -m tests.attacks.threats
	$(BIN)/python -m tests.docs.notebooks

clean:
	rm -rf $(VENV) build .coverage .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
