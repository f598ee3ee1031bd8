#!/usr/bin/env bash
# Runs everything that needs a real control plane: builds or finds its programs, then runs the test targets named
# `real*` of all packages, and says at the end what ran on which versions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

KUBEBUILDER_ASSETS=$(./hack/build-control-plane.sh)
export KUBEBUILDER_ASSETS
kubernetes=$("$KUBEBUILDER_ASSETS/kube-apiserver" --version | awk '{print $2}')
etcd=$("$KUBEBUILDER_ASSETS/etcd" --version | awk '/etcd Version/ {print $3}')
echo "e2e: kube-apiserver $kubernetes, etcd $etcd from $KUBEBUILDER_ASSETS"

if informer=$(./hack/build-informer.sh); then
  export COPPICE_INFORMER=$informer
  echo "e2e: client-go's informers from $informer"
else
  export COPPICE_INFORMER=kube-rs
  echo "e2e: no client-go informers here (why: see above); kube-rs's watchers take their place in real_informer"
fi

./hack/render-install.sh --check

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The whole workspace, so that features are those of `make test` and nothing is compiled twice.
cargo test --workspace --locked --test 'real*' "$@" 2>&1 | tee "$log"
passed=$(awk '/^test result:/ {sum += $4} END {print sum + 0}' "$log")
echo "e2e: $passed tests passed on kube-apiserver $kubernetes with etcd $etcd"
[ "$passed" -gt 0 ] || { echo "e2e: no test ran; that is a failure" >&2; exit 1; }
