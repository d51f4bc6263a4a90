#!/bin/sh
# An exec plugin: a new token of a service account at every run, said to end after LIFETIME seconds. Each is bound to a
# secret of its own; every third one is revoked before anybody has used it, because its secret is gone. (Of a token that
# was used the server keeps its judgement for ten seconds, longer than these live.)
set -eu
echo run >>"$RUNS"
ask() { "$KUBECTL" --kubeconfig "$ADMIN" --namespace default "$@"; }
secret="bond-$ACCOUNT-$$-$(date +%s%N)"
ask create secret generic "$secret" >/dev/null
token=$(ask create token "$ACCOUNT" --bound-object-kind Secret --bound-object-name "$secret")
if [ $(($(wc -l <"$RUNS") % 3)) = 0 ]; then ask delete secret "$secret" >/dev/null; fi
end=$(date -u -d "+$LIFETIME seconds" +%Y-%m-%dT%H:%M:%SZ)
printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"%s","expirationTimestamp":"%s"}}\n' \
  "$token" "$end"
