#!/usr/bin/env bash
# Builds the helm program once, from the Go module beside this script, into a cache outside the repository, and prints
# its path on standard output. HELM, when set, is used instead.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf 'helm: %s\n' "$*" >&2; }

if [ -n "${HELM:-}" ]; then
  command -v "$HELM" >/dev/null || { say "HELM=$HELM is not a program. Unset it to build helm from source."; exit 1; }
  command -v "$HELM"
  exit 0
fi
version=$(awk '$1=="helm.sh/helm/v4" {print $2}' "$here/helm/go.mod" | head -1)
fingerprint=$(cat "$here/helm/go.mod" "$here/helm/go.sum" | sha256sum | cut -c1-12)
target="${COPPICE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/coppice}/helm/$version-$fingerprint"
if [ ! -x "$target/helm" ]; then
  command -v go >/dev/null || {
    say "no Go toolchain found, and no helm $version in $target."
    say "Install Go 1.26 or newer (https://go.dev/dl), or set HELM to a helm program."
    exit 1
  }
  mkdir -p "$target"
  exec 9>"$target/.lock"
  flock 9 # a second caller waits for the first
  if [ ! -x "$target/helm" ]; then
    say "building helm $version into $target (a few minutes, once)"
    (cd "$here/helm" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$target/helm.part" helm.sh/helm/v4/cmd/helm)
    mv "$target/helm.part" "$target/helm"
  fi
fi
printf '%s\n' "$target/helm"
