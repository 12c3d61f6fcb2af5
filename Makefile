# Two commands: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
COMPLETE := .venv/.complete
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --editable

.PHONY: demo test docs format clean

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) ".[atari,box2d]"
	touch $(READY)

$(COMPLETE): $(READY)
	$(PIP) ".[atari,box2d,sb3,export,video,cluster,docs,dev]"
	touch $(COMPLETE)

demo: $(READY)
	$(BIN)/python -m xlvin demo

test: $(COMPLETE)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q

docs: $(COMPLETE)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

format: $(COMPLETE)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist site
