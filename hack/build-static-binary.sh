#!/usr/bin/env bash
# Builds dist/coppice, a static release binary: with musl where that target is installed, else with static glibc.
# Static glibc cannot load name-service modules, so host names are resolved by DNS only; in a pod that is all there is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

architecture=$(uname -m)
sysroot=$(rustc --print sysroot)
if [ -d "$sysroot/lib/rustlib/$architecture-unknown-linux-musl" ] && command -v musl-gcc >/dev/null; then
  target=$architecture-unknown-linux-musl
else
  target=$architecture-unknown-linux-gnu
  export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static"
fi
echo "static binary: building for $target" >&2
cargo build --release --locked --bin coppice --target "$target"
mkdir -p dist
cp "${CARGO_TARGET_DIR:-target}/$target/release/coppice" dist/coppice
if command -v readelf >/dev/null && readelf -l dist/coppice | grep -q INTERP; then
  echo "static binary: dist/coppice needs a dynamic loader, so it would not run in an empty image." >&2
  exit 1
fi
echo "static binary: dist/coppice, $(wc -c <dist/coppice) bytes" >&2
