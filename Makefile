# What a developer or operator types. Needs make and a Python of 3.11 or newer; everything else is
# installed into .venv, as locked, and again only when a lock file has changed.

PYTHONS  := python3 python3.13 python3.12 python3.11
PIP      := .venv/bin/python -m pip -qq --disable-pip-version-check
# The account that a service of root runs Postgres as must be able to read it.
OPEN     := umask 022
LOCK     := .venv/bin/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate
SOURCES  := $(wildcard app tests examples bench migrations website client)
TESTS    := $(wildcard tests/unit tests/integration tests/e2e examples/tests client/tests)

# The tests start many processes; each would compile the project anew.
unexport PYTHONDONTWRITEBYTECODE

export SIGNOFF_WORKFLOWS ?= examples.errands:errands,examples.publishing:publishing,examples.payments:payments

.PHONY: help run test test-long lint format docs pictures lock openapi bench clean

help:
	@echo "make run        serve the examples on http://127.0.0.1:8000 (or PORT=8001), with an embedded Postgres"
	@echo "make test       lint, then all tests"
	@echo "make test-long  the tests that take minutes"
	@echo "make lint       formatting, rules, types, imports, dependencies"
	@echo "make format     mend what can be mended by itself"
	@echo "make docs       the pages of docs/ as a site, in build/website/site"
	@echo "make pictures   take those of the documentation anew, from the running product"
	@echo "make bench      measure one cycle beside its floors"
	@echo "make openapi    write openapi/openapi.json"
	@echo "make lock       remake the lock files"

run: .venv/project.stamp
	@exec .venv/bin/signoff serve $(if $(PORT),--port $(PORT))

test: lint
	@.venv/bin/python -m pytest -n 3 $(TESTS)

test-long: .venv/dev.stamp .venv/docs.stamp
	@.venv/bin/python -m pytest --timeout 1200 -n 4 --dist worksteal tests/long

lint: .venv/dev.stamp
	@.venv/bin/ruff check --quiet $(SOURCES)
	@.venv/bin/ruff format --quiet --check $(SOURCES)
	@.venv/bin/basedpyright --pythonpath .venv/bin/python
	@PYTHONPATH=. .venv/bin/lint-imports --no-logo
	@.venv/bin/deptry .
	@cd client && ../.venv/bin/deptry .

format: .venv/dev.stamp
	@.venv/bin/ruff check --quiet --fix $(SOURCES)
	@.venv/bin/ruff format --quiet $(SOURCES)

docs: .venv/docs.stamp
	@.venv/bin/python -m website.build

pictures: .venv/dev.stamp
	@.venv/bin/python -m website.pictures

openapi: .venv/dev.stamp
	@.venv/bin/signoff openapi > openapi/openapi.json.new
	@mv openapi/openapi.json.new openapi/openapi.json

bench: .venv/dev.stamp
	@.venv/bin/python -m bench.cycle

lock: .venv/dev.stamp
	@$(LOCK) --python-version 3.11 --output-file requirements.txt pyproject.toml
	@$(LOCK) --python-version 3.11 --output-file requirements-build.txt --group build
	@$(LOCK) --python-version 3.11 --output-file requirements-dev.txt --constraint requirements.txt \
		--extra mcp --extra openai --extra otel --group dev pyproject.toml
	@$(LOCK) --python-version 3.11 --output-file requirements-docs.txt --constraint requirements-dev.txt --group docs

clean:
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache

# ── The virtual environment ──────────────────────────────────────────────────────────────────────

.venv/dev.stamp: requirements-dev.txt .venv/project.stamp
	@echo "Installing the development tools into .venv (a few minutes) ..."
	@$(PIP) install --require-hashes -r requirements-dev.txt
	@touch $@

.venv/docs.stamp: requirements-docs.txt .venv/dev.stamp
	@echo "Installing what builds the documentation into .venv ..."
	@$(PIP) install --require-hashes -r requirements-docs.txt
	@touch $@

.venv/project.stamp: pyproject.toml .venv/runtime.stamp
	@$(PIP) install --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	@touch $@

.venv/runtime.stamp: requirements.txt requirements-build.txt
	@old=; bare=; found=; for python in $(PYTHONS); do \
		version=`$$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null` || continue; \
		if ! $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then old="$$old $$version"; continue; fi; \
		if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then bare=$$python; continue; fi; \
		found=$$python; break; \
	done; \
	if [ -z "$$found" ] && [ -n "$$bare" ]; then \
		echo "$$bare has no venv module: install it (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; \
	elif [ -z "$$found" ]; then \
		echo "Signoff needs Python 3.11 or newer; found:$${old:- none}." >&2; exit 1; \
	fi; \
	echo "Installing into .venv with Python $$version (a few minutes) ..."; \
	rm -rf .venv && $(OPEN) && $$found -m venv .venv
	@$(OPEN) && $(PIP) install --require-hashes -r requirements-build.txt -r requirements.txt
	@touch $@
