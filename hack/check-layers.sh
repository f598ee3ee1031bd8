#!/usr/bin/env bash
# The direction of dependencies (docs/architecture.md): deciders know neither tokio nor an HTTP client, the embedded
# API server knows none of our kinds, nothing below depends on something above it, and no two modules of a pure crate
# need each other (check-cycles.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=0
# deny CRATE REASON PACKAGE...: none of the packages may be among the crate's normal dependencies, at any depth
deny() {
  local crate=$1 reason=$2 tree
  shift 2
  [ -d "crates/${crate#coppice-}" ] || return 0
  tree=$(cargo tree --locked --offline -p "$crate" -e normal --prefix none --format '{p}' 2>/dev/null ||
    cargo tree --locked -p "$crate" -e normal --prefix none --format '{p}')
  for package in "$@"; do
    if grep -qE "^$package v" <<<"$tree"; then
      echo "layers: $crate depends on $package: $reason" >&2
      cargo tree --locked -p "$crate" -e normal -i "$package" --depth 4 2>/dev/null | head -12 >&2 || true
      failed=1
    fi
  done
}

pure="a decider has no client, no runtime and no clock; move what needs one into a shell"
for crate in coppice-schema coppice-api coppice-core coppice-placement coppice-initc coppice-domains; do
  deny "$crate" "$pure" tokio hyper reqwest kube kube-client kube-runtime axum rand
done
generic="it is a Kubernetes of its own and must serve any kind"
for crate in coppice-apiserver coppice-cluster coppice-runtime; do
  deny "$crate" "$generic" coppice-api coppice-core coppice-placement coppice-operator coppice-scheduler
done
deny coppice-apiserver "the server is not a client of itself" kube kube-client
deny coppice-scheduler "it reads gangs from the API, whoever wrote them" coppice-core coppice-operator coppice-cluster
deny coppice-operator "schedulers read gangs from the API" coppice-placement coppice-scheduler
deny coppice-core "the planner decides what, placement decides where" coppice-placement
deny coppice-domains "ComputeDomains serve any workload, Grove's or not" coppice-api coppice-core coppice-operator coppice-scheduler
for crate in coppice-domain-controller coppice-domain-daemon coppice-domain-plugin; do
  deny "$crate" "ComputeDomains serve any workload, Grove's or not" coppice-api coppice-core coppice-operator coppice-scheduler
done
# The pure modules of a crate that may also hold shells: no runtime, client, clock, randomness, files or processes in them.
impure='\b(tokio|kube_client|kube_runtime|kube|rand)::|std::(fs|process|thread|env|time)\b|::now\(\)'
if grep -rnE "$impure" crates/domains/src/api crates/domains/src/decide >&2; then
  echo "layers: crates/domains: api and decide are pure: $pure" >&2
  failed=1
fi
# Views and pages are made from objects alone; a view knows the scheduler's model, so its crate has a client among its dependencies.
impure='\b(tokio|axum|rand)::|kube::(Client|Api|client|runtime)\b|std::(fs|process|thread|env|time)\b|::now\(\)'
if grep -rnE "$impure" crates/view/src crates/dashboard/src/model crates/dashboard/src/page crates/dashboard/src/guard.rs --include=*.rs \
  | grep -vE 'golden\.rs|tests\.rs' >&2; then
  echo "layers: views and pages are pure: $pure" >&2
  failed=1
fi
deny coppice-dashboard "it reads a cluster, and runs no part of one" coppice-operator coppice-cluster coppice-apiserver
deny coppice-view "it reads objects, and runs no part of a cluster" coppice-operator coppice-cluster coppice-apiserver
./hack/check-cycles.sh || failed=1
[ $failed -eq 0 ] && echo "layers: dependencies point downward only"
exit $failed
