#!/bin/sh
# An exec plugin: a new token of a service account at every run, said to end after LIFETIME seconds.
set -eu
echo run >>"$RUNS"
token=$("$KUBECTL" --kubeconfig "$ADMIN" create token "$ACCOUNT")
end=$(date -u -d "+$LIFETIME seconds" +%Y-%m-%dT%H:%M:%SZ)
printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"%s","expirationTimestamp":"%s"}}\n' \
  "$token" "$end"
