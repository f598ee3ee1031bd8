#!/usr/bin/env bash
# Known vulnerabilities of dependencies, from the RustSec database. Fails when a dependency has one. Where the database
# cannot be fetched, an earlier copy is used; without a copy nothing can be checked, which is said loudly and is no
# failure: a network without GitHub must not stop a change. ADVISORIES=required makes it one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

shout() {
  printf '\n!!! %s\n' "$@" >&2
  printf '\n' >&2
}

databases="${CARGO_HOME:-$HOME/.cargo}/advisory-dbs"
if reason=$(cargo deny --locked fetch db 2>&1); then
  cargo deny --locked check advisories
elif compgen -G "$databases/*/crates" >/dev/null; then
  shout "ADVISORIES: the RustSec database could not be fetched; an earlier copy in $databases is used."
  cargo deny --locked --offline check advisories
else
  shout "ADVISORIES WERE NOT CHECKED: the RustSec database could not be fetched, and there is no earlier copy." \
    "$(head -n 1 <<<"$reason")"
  [ "${ADVISORIES:-}" != required ]
fi
