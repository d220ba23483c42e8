# setup  everything that measuring needs (cached; a second run only checks)
# bench  quick profile of every experiment, then its tables; the fifth, inside the process, by asv
# test   the test suite; TESTS= selects, JOBS= so many at once
# check  lint, format, types
PYTHON ?= python3
JOBS ?= 2
TESTS ?= tests
BIN := .venv/bin

.PHONY: setup bench test check

setup:
	@$(PYTHON) scripts/bootstrap.py
	@$(BIN)/servebench setup $(FOR_TESTS)

bench: setup
	@$(BIN)/servebench run --profile quick; code=$$?; $(BIN)/servebench show latest; \
	$(BIN)/servebench micro --select 'gil.Cpu.time_tasks(*, 4)' --select 'gil.Network*' && exit $$code

test: FOR_TESTS := --tests
test: setup
	@$(BIN)/pytest $(if $(filter-out 1,$(JOBS)),-n $(JOBS)) $(TESTS)

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
