# Coppice: every target sets up what it needs. `make help` lists them.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
# Where property tests begin: the same cases in every run. Another number looks at others.
export PROPTEST_RNG_SEED ?= 20260101

.PHONY: help demo test e2e bench lint fmt control-plane deny install-manifest static-binary image screenshots

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: toolchain ## the main job on an embedded control plane: no cluster, no Docker, no Go
	$(CARGO) run --locked --bin coppice -- demo

test: toolchain ## everything that needs no other download than crates
	$(CARGO) test --workspace --locked

e2e: toolchain ## the scenarios against a real kube-apiserver and etcd (KUBEBUILDER_ASSETS, else built once from source)
	./hack/e2e.sh

bench: toolchain ## the measured claims, each beside a floor in the same run
	$(CARGO) bench --locked -p coppice-api --bench canonical_identity
	$(CARGO) bench --locked -p coppice-placement --bench decision > bench/results/decision.txt
	cat bench/results/decision.txt
	$(CARGO) build --locked --profile bench -p coppice-bench -p coppice --bins
	export KUBEBUILDER_ASSETS="$$(./hack/build-control-plane.sh)"; \
	for program in scheduling control-plane workload; do "$(or $(CARGO_TARGET_DIR),target)/release/$$program" || exit 1; done

lint: toolchain ## formatting, clippy and rustdoc with warnings as errors, the direction of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --workspace --test 'real*' --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --workspace --no-deps --locked --document-private-items --quiet
	./hack/check-layers.sh

deny: toolchain ## licences, sources, duplicate versions and known vulnerabilities of all dependencies (installs cargo-deny when absent)
	@command -v cargo-deny >/dev/null || { echo "installing cargo-deny (once, a few minutes)"; $(CARGO) install --locked --quiet cargo-deny; }
	$(CARGO) deny --locked check licenses bans sources
	./hack/check-advisories.sh

fmt: toolchain ## format all code
	$(CARGO) fmt --all

control-plane: ## build the real control plane binaries into the cache and print where they are
	@./hack/build-control-plane.sh

install-manifest: ## render deploy/install.yaml from the chart (builds helm once from source)
	./hack/render-install.sh

screenshots: toolchain ## docs/pictures: pictures of the dashboard, from its test in Chromium
	COPPICE_SCREENSHOTS="$(CURDIR)/docs/pictures" ./hack/screenshots.sh

static-binary: toolchain ## dist/coppice: a static release binary
	./hack/build-static-binary.sh

image: static-binary ## dist/coppice-image.tar: an OCI image of the static binary, without Docker
	./hack/build-image.sh

.PHONY: toolchain
toolchain:
	@command -v $(CARGO) >/dev/null || { echo "No Rust toolchain found: install a stable one, 1.91 or newer, from https://rustup.rs and run this again." >&2; exit 1; }
	@command -v cc >/dev/null || { echo "No C linker found: install gcc or clang (on Debian: apt-get install gcc libc6-dev) and run this again." >&2; exit 1; }
