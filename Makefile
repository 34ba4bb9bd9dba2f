# The commands of this project; `make` lists them.
jobs := $(shell nproc)
sources = $(shell git ls-files '*.h' '*.cc')

.PHONY: help build demo test test-all bench format tidy clean
help:                 ## this list
	@sed -n 's/^\([a-z-]*\): *## */\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name what; do \
	  printf '  make %-10s %s\n' "$$name" "$$what"; done

build:                ## install what is missing and build ./tacit
	@scripts/setup build
	@mkdir -p build/release
	@cmake --preset release >build/release/configure.log 2>&1 || { cat build/release/configure.log; exit 1; }
	@echo 'building tacit …'
	@cmake --build build/release --target tacit -j $(jobs) >build/release/build.log 2>&1 \
	  || { grep -v '^\[' build/release/build.log | head -n 100; exit 1; }

demo:                 ## install, build, and train a private model on real data
	@scripts/setup demo
	@$(MAKE) --no-print-directory build
	@if ./tacit data info fashion_mnist --json 2>/dev/null | grep -q '"here": true'; then ./tacit train experiments/demo.toml; \
	else echo 'demo: Fashion-MNIST is not to be had here; training on generated data instead' >&2; \
	  ./tacit train experiments/demo_generated.toml; fi

test:                 ## install, build and run the tests (minutes)
	@scripts/setup test
	@scripts/run-tests dev -LE slow

test-all:             ## everything long: sanitizers, statistics, fuzzing, experiments (log: build/test-all.log)
	@scripts/setup all
	@scripts/test-all

bench:                ## measure the hot paths beside NumPy, SciPy, PyTorch, pfl-research, Flower and other accountants: a table, results.json and a picture in build/bench
	@scripts/setup bench
	@mkdir -p build/bench
	@cmake -S . -B build/bench -G Ninja -DCMAKE_BUILD_TYPE=Release -DTACIT_BENCH=ON -DTACIT_TESTS=OFF >build/bench/configure.log
	@cmake --build build/bench --target benchmarks -j $(jobs) >build/bench/build.log 2>&1 \
	  || { grep -v '^\[' build/bench/build.log | head -n 100; exit 1; }
	@bench/run.py

format:               ## format the sources in place
	@clang-format-19 -i $(sources)

tidy:                 ## clang-tidy over all sources
	@scripts/tidy --all

clean:                ## remove the build folder
	@rm -rf build
