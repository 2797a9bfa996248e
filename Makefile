# What people type. Each target sets up what it needs; what is there already
# is not done again.
.DEFAULT_GOAL := help
.PHONY: help build demo test soak mutants bench format lint clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | \
	  sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

build: ## Set up, then build the program: build/release/reprise
	@scripts/build.sh reprise

demo: ## Set up, build, and hold a six-turn chat with a small real model
	@scripts/build.sh reprise
	@python3 scripts/demo.py

test: ## Set up, build, run every test, then once more under sanitizers
	@scripts/test.sh

soak: ## The long forms of the same tests, the fuzzers, and the mutants
	@REPRISE_SOAK=1 scripts/test.sh
	@scripts/fuzz.sh
	@scripts/mutants.sh

mutants: ## Plant faults, each of which a test must notice
	@scripts/setup.sh
	@scripts/mutants.sh

bench: ## Measure speed and memory, beside other implementations
	@scripts/bench.sh

format: ## Rewrite C++ sources in the house format
	@scripts/lint.sh format

lint: ## Check the format, and run clang-tidy over the C++ sources
	@scripts/lint.sh check

clean: ## Remove the builds (not .deps: that is what set-up fetched)
	rm -rf build
