#!/usr/bin/env bash
# Lays out dist/coppice (see build-static-binary.sh) as an OCI image without Docker: dist/coppice-image.tar, an OCI image
# layout that skopeo, crane, podman and `docker load` read. The same binary gives the same digest, on any day.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ -x dist/coppice ] || { echo "image: no dist/coppice; run 'make static-binary' first." >&2; exit 1; }
version=$(awk -F'"' '/^version/ {print $2; exit}' Cargo.toml)
case $(uname -m) in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) echo "image: unknown architecture $(uname -m)" >&2; exit 1 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root" "$work/image/blobs/sha256"
install -m 0755 dist/coppice "$work/root/coppice"

# Names in order, one date, one owner: what the tar holds depends on the binary alone.
archive() { tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar -C "$1" -cf - .; }
# store FILE: moves a file to the blob of its digest; prints "DIGEST SIZE".
store() {
  local digest
  digest=$(sha256sum "$1" | cut -d' ' -f1)
  wc -c <"$1" | tr -d ' ' >"$work/size"
  mv "$1" "$work/image/blobs/sha256/$digest"
  echo "sha256:$digest $(cat "$work/size")"
}

archive "$work/root" >"$work/layer.tar"
plain="sha256:$(sha256sum "$work/layer.tar" | cut -d' ' -f1)"
gzip -n -9 "$work/layer.tar"
read -r layer layer_size < <(store "$work/layer.tar.gz")
cat >"$work/config.json" <<JSON
{"architecture":"$architecture","os":"linux","config":{"User":"65532:65532","Entrypoint":["/coppice"],"Labels":{"org.opencontainers.image.title":"coppice","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["$plain"]}}
JSON
read -r config config_size < <(store "$work/config.json")
cat >"$work/manifest.json" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"$config","size":$config_size},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"$layer","size":$layer_size}]}
JSON
read -r manifest manifest_size < <(store "$work/manifest.json")
echo '{"imageLayoutVersion":"1.0.0"}' >"$work/image/oci-layout"
cat >"$work/image/index.json" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"$manifest","size":$manifest_size,"platform":{"architecture":"$architecture","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"coppice:$version"}}]}
JSON
archive "$work/image" >dist/coppice-image.tar
echo "image: dist/coppice-image.tar, coppice:$version, $manifest ($layer_size bytes compressed)" >&2
