#!/usr/bin/env bash
# Builds etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl once, into a cache outside the
# repository, and prints the directory that holds them on standard output. Progress goes to standard error.
# The cache is keyed by the two Go modules beside this script, so another version is another directory.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf 'control plane: %s\n' "$*" >&2; }

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  for program in etcd kube-apiserver; do
    [ -x "$KUBEBUILDER_ASSETS/$program" ] || {
      say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no executable '$program'."
      say "Point it at a directory with etcd and kube-apiserver, or unset it to build them from source."
      exit 1
    }
  done
  printf '%s\n' "$KUBEBUILDER_ASSETS"
  exit 0
fi

kubernetes_version=$(awk '$1=="require" && $2=="k8s.io/kubernetes" {print $3} $1=="k8s.io/kubernetes" {print $2}' "$here/kubernetes/go.mod" | head -1)
etcd_version=$(awk '$1=="require" && $2=="go.etcd.io/etcd/server/v3" {print $3} $1=="go.etcd.io/etcd/server/v3" {print $2}' "$here/etcd/go.mod" | head -1)
recipe=1 # raise when the way of building below changes what comes out
fingerprint=$( (echo "recipe $recipe"; cat "$here"/kubernetes/go.mod "$here"/kubernetes/go.sum "$here"/kubernetes/cmd/*/main.go \
  "$here"/etcd/go.mod "$here"/etcd/go.sum "$here"/etcd/main.go) | sha256sum | cut -c1-12)
cache="${COPPICE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/coppice}/control-plane"
target="$cache/kubernetes-$kubernetes_version-etcd-$etcd_version-$fingerprint"
programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl)

complete() { for program in "${programs[@]}"; do [ -x "$target/$program" ] || return 1; done; }
if complete; then printf '%s\n' "$target"; exit 0; fi

command -v go >/dev/null || {
  say "no Go toolchain found, and no binaries of Kubernetes $kubernetes_version in $target."
  say "Install Go 1.26 or newer (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver."
  exit 1
}

mkdir -p "$target"
exec 9>"$target/.lock"
flock 9 # a second caller waits for the first instead of building the same thing twice
if complete; then printf '%s\n' "$target"; exit 0; fi

# build MODULE_DIRECTORY PACKAGE PROGRAM [LINKER_FLAGS]: one program, with a line per 100 compiled packages
build() {
  local module=$1 package=$2 program=$3 flags=${4:-} total
  [ -x "$target/$program" ] && return
  cd "$here/$module"
  total=$(CGO_ENABLED=0 go list -deps "$package" | wc -l)
  say "$program: compiling up to $total packages (shared ones only once)"
  if ! CGO_ENABLED=0 go build -v -trimpath -ldflags "-s -w $flags" -o "$target/$program.part" "$package" 2> >(
    awk -v name="$program" -v total="$total" '
      /^[a-z0-9.-]+(\/[A-Za-z0-9._~-]+)*$/ { if (++n % 100 == 0) printf "control plane: %s: %d of %d\n", name, n, total; next }
      { print }' >&2
  ); then
    say "$program: go build failed; the lines above say why."
    exit 1
  fi
  mv "$target/$program.part" "$target/$program"
}

started=$(date +%s)
say "building Kubernetes $kubernetes_version and etcd $etcd_version into $target (about 12 minutes on 2 cores, once)"
build etcd . etcd
release=${kubernetes_version#v}
minor=${release#*.}
stamp=""
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  stamp+=" -X $package.gitVersion=$kubernetes_version -X $package.gitMajor=${release%%.*} -X $package.gitMinor=${minor%%.*}"
done
for program in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
  build kubernetes "./cmd/$program" "$program" "$stamp"
done
say "built in $(($(date +%s) - started)) s"
printf '%s\n' "$target"
