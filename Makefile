# The commands that a developer or a visitor runs. `make` alone lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

STAMP  := $(VENV)/.installed
# Python modules are installed in place. Editing one needs no new installation, but adding one does; so MODULES lists
# them. Each make writes a new list of its own, since several may run at once.
NATIVE := pyproject.toml $(shell find . -path ./build -prune -o -path './.*' -prune -o \
            \( -name CMakeLists.txt -o -name '*.cmake' -o -name '*.cc' -o -name '*.cu' -o -name '*.h' -o -name '*.proto' \) -print)
MODULES := build/modules.list

.PHONY: help setup demo test lint tidy stubs cuda test-verbs test-nightly wheels test-wheels gpu-check gpu-wheels bench notebooks docs p4 p4-conformance clean FORCE
.DEFAULT_GOAL := help

help: ## print this list
	@sed -nE 's/^([a-z0-9-]+):[^#]*## (.*)/\1\t\2/p' Makefile | expand -t 16

setup: $(STAMP) ## check the system's packages, then install into .venv (PYTHON=python3.12 picks the Python, V=1 shows more)

demo: $(STAMP) ## train the example over every transport but verbs, and compare
	$(BIN)/python scripts/demo.py

test: $(STAMP) ## build and run all tests
	scripts/test.sh $(VENV)

lint: $(STAMP) ## check the format, lint and types of all code (a minute)
	scripts/lint.sh $(VENV)

tidy: $(STAMP) ## run clang-tidy over the C++ code (many minutes; FILES=... only these)
	scripts/tidy.sh $(VENV) $(FILES)

stubs: $(STAMP) ## write the type stubs of the native module and of the protocols
	scripts/lint_tools.sh $(VENV)
	scripts/stubs.sh $(VENV)

cuda: ## compile the GPU code for all targets with nvcc from PyPI, and against CUDA 12; needs no GPU
	scripts/compile_cuda.sh build/cuda
	scripts/compile_cuda12.sh build/cuda

test-verbs: $(STAMP) ## test the RDMA transport on Linux's Soft-RoCE, in a virtual machine made of Debian's packages
	scripts/test_verbs.sh $(VENV)

test-nightly: $(STAMP) ## run the long tests, and the native tests under the sanitizers (PARTS="shapes fuzz" runs only these)
	scripts/test_nightly.sh $(VENV) $(PARTS)

wheels: ## build the wheels of jaxina and jaxina-cuda13 into build/wheels (Python 3.11 and a later one are needed)
	scripts/wheels.sh build/wheels

test-wheels: ## install them in a bare Debian and for other Pythons, and train the example there (root, debootstrap)
	scripts/test_wheels.sh build/wheels build/wheels-test

p4: ## compile the P4 program with the Tofino compiler on PATH, and report its resources
	scripts/p4.sh

gpu-check: ## test and benchmark all GPU code, on a machine that has a GPU (no network needed; PARTS="install kernels" are two of four parts)
	PYTHON="$(PYTHON)" scripts/gpu_check.sh $(PARTS)

gpu-wheels: wheels cuda ## build and gather into build/gpu-wheels what gpu-check needs
	scripts/gpu_wheels.sh "$(PYTHON)" build/gpu-wheels

bench: $(STAMP) ## measure all-reduce times beside XLA's own (gloo), with 2 and 4 processes, into out/
	mkdir -p out
	$(BIN)/jaxina bench -n 2 -b 4K -e 100M -f 5 --vs gloo --json out/bench-2.json
	$(BIN)/jaxina bench -n 4 -b 4K -e 100M -f 5 --vs gloo --json out/bench-4.json

notebooks: $(STAMP) ## execute the notebooks and write their figures into notebooks/*.ipynb
	$(BIN)/python notebooks/execute.py

docs: $(STAMP) ## write docs/configuration.md from jaxina/config/settings.py, then build the documentation into build/site
	scripts/docs.sh $(VENV) build/site

CONTROL ?= 127.0.0.1:51000
p4-conformance: $(STAMP) ## send the vectors of p4/conformance as raw frames: DEVICE=INTERFACE,... CONTROL=HOST:PORT ARGUMENTS=...
	@[ -n "$(DEVICE)" ] || { echo "DEVICE=INTERFACE,... names where the device is; see p4/conformance/README.md"; exit 2; }
	cd p4 && $(abspath $(BIN))/python -m conformance --control $(CONTROL) --interfaces $(DEVICE) $(ARGUMENTS)

clean: ## remove the installation, builds and outputs
	rm -rf $(VENV) build out

$(STAMP): $(NATIVE) $(MODULES) scripts/setup.sh scripts/system_packages.sh
	PYTHON="$(PYTHON)" scripts/setup.sh $(VENV)
	@touch $@

$(MODULES): FORCE
	@mkdir -p build
	@new=$@.$$$$; find jaxina p4/controller -name '*.py' | sort > $$new; cmp -s $$new $@ && rm $$new || mv $$new $@
