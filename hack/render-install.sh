#!/usr/bin/env bash
# Renders deploy/install.yaml from the chart with helm: the namespace, the CRDs, and everything else; and beside it
# deploy/compute-domains/install.yaml, which has what ComputeDomains need without NVIDIA's driver. With --check it
# only says whether the committed files are what the chart renders.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

namespace=coppice-system
helm=$(./hack/build-helm.sh)
"$helm" lint --strict --quiet charts/grove-charts
rendered=$(mktemp)
domains=$(mktemp)
trap 'rm -f "$rendered" "$domains"' EXIT
{
  cat <<YAML
# Everything for one cluster: kubectl apply --server-side -f install.yaml
# Rendered from charts/grove-charts by 'make install-manifest'; changes belong there.
apiVersion: v1
kind: Namespace
metadata:
  name: $namespace
  labels:
    pod-security.kubernetes.io/enforce: restricted
YAML
  "$helm" template coppice charts/grove-charts --namespace "$namespace" --include-crds
} >"$rendered"
{
  cat <<YAML
# ComputeDomains without NVIDIA's DRA driver (docs/compute-domains.md): after crds.json and with images of your registry,
# kubectl apply --server-side -f install.yaml
# Rendered from charts/grove-charts by 'make install-manifest'; changes belong there.
apiVersion: v1
kind: Namespace
metadata:
  name: nvidia-dra-driver-gpu
  labels:
    pod-security.kubernetes.io/enforce: privileged
YAML
  "$helm" template coppice charts/grove-charts --namespace nvidia-dra-driver-gpu \
    --set computeDomains.enabled=true --set computeDomains.deviceClasses=true \
    --set computeDomains.daemon.image=coppice-compute-domain-daemon --set computeDomains.kubeletPlugin.enabled=true \
    --set priorityClass.enabled=false \
    --show-only 'templates/compute-domains/*.yaml'
} >"$domains"
if [ "${1:-}" = --check ]; then
  for pair in "deploy/install.yaml $rendered" "deploy/compute-domains/install.yaml $domains"; do
    read -r committed current <<<"$pair"
    diff -u "$committed" "$current" || {
      echo "$committed is not what the chart renders: run 'make install-manifest' and commit." >&2
      exit 1
    }
    echo "$committed is what the chart renders"
  done
else
  mkdir -p deploy/compute-domains
  cp "$rendered" deploy/install.yaml
  cp "$domains" deploy/compute-domains/install.yaml
  for file in deploy/install.yaml deploy/compute-domains/install.yaml; do
    echo "$file: $(grep -c '^kind:' "$file") objects"
  done
fi
