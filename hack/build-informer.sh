#!/usr/bin/env bash
# Builds the client-go informer of `hack/informer` once, into the cache outside the repository, and prints the program's
# path on standard output. Progress goes to standard error. COPPICE_INFORMER names a program to use instead.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf 'informer: %s\n' "$*" >&2; }

if [ -n "${COPPICE_INFORMER:-}" ]; then
  [ -x "$COPPICE_INFORMER" ] || {
    say "COPPICE_INFORMER=$COPPICE_INFORMER is no executable file; unset it to build the program from source."
    exit 1
  }
  printf '%s\n' "$COPPICE_INFORMER"
  exit 0
fi

version=$(awk '$1=="k8s.io/client-go" {print $2; exit}' "$here/informer/go.mod")
recipe=1 # raise when the way of building below changes what comes out
fingerprint=$( (echo "recipe $recipe"; cat "$here"/informer/go.mod "$here"/informer/go.sum "$here"/informer/*.go) | sha256sum | cut -c1-12)
cache="${COPPICE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/coppice}/informer"
target="$cache/client-go-$version-$fingerprint"
program="$target/informer"

if [ -x "$program" ]; then printf '%s\n' "$program"; exit 0; fi
command -v go >/dev/null || {
  say "no Go toolchain found, and no informer of client-go $version in $target."
  say "Install Go 1.26 or newer (https://go.dev/dl), or set COPPICE_INFORMER to a built program."
  exit 1
}
mkdir -p "$target"
exec 9>"$target/.lock"
flock 9 # a second caller waits for the first instead of building the same thing twice
if [ -x "$program" ]; then printf '%s\n' "$program"; exit 0; fi

say "building client-go $version's informers into $target (about a minute on 2 cores, once)"
cd "$here/informer"
if ! CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$program.part" . >&2; then
  say "go build failed; the lines above say why."
  exit 1
fi
mv "$program.part" "$program"
printf '%s\n' "$program"
