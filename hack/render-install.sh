#!/usr/bin/env bash
# Renders deploy/install.yaml from the chart with helm: the namespace, the CRDs, and everything else. With --check it
# only says whether the committed file is what the chart renders.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

namespace=coppice-system
helm=$(./hack/build-helm.sh)
"$helm" lint --strict --quiet charts/grove-charts
rendered=$(mktemp)
trap 'rm -f "$rendered"' EXIT
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
if [ "${1:-}" = --check ]; then
  diff -u deploy/install.yaml "$rendered" || {
    echo "deploy/install.yaml is not what the chart renders: run 'make install-manifest' and commit." >&2
    exit 1
  }
  echo "deploy/install.yaml is what the chart renders"
else
  mkdir -p deploy
  cp "$rendered" deploy/install.yaml
  echo "deploy/install.yaml: $(grep -c '^kind:' deploy/install.yaml) objects"
fi
