#!/bin/sh
# An exec plugin: a new key and a certificate that the cluster signs at every run, said to end after LIFETIME seconds.
set -eu
echo run >>"$RUNS"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
name="$ACCOUNT-$$-$(date +%s%N)"
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/O=readers/CN=$ACCOUNT" \
  -keyout "$folder/key" -out "$folder/request" 2>/dev/null
cat >"$folder/object" <<EOF
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: { name: $name }
spec:
  request: $(base64 -w0 <"$folder/request")
  signerName: kubernetes.io/kube-apiserver-client
  expirationSeconds: 600
  usages: [client auth]
EOF
ask() { "$KUBECTL" --kubeconfig "$ADMIN" "$@"; }
ask create -f "$folder/object" >/dev/null
ask certificate approve "$name" >/dev/null
ask wait "csr/$name" --for=jsonpath='{.status.certificate}' --timeout=60s >/dev/null
ask get csr "$name" -o jsonpath='{.status.certificate}' | base64 -d >"$folder/certificate"
line() { awk '{ printf "%s\\n", $0 }' "$1"; }
end=$(date -u -d "+$LIFETIME seconds" +%Y-%m-%dT%H:%M:%SZ)
printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"clientCertificateData":"%s","clientKeyData":"%s","expirationTimestamp":"%s"}}\n' \
  "$(line "$folder/certificate")" "$(line "$folder/key")" "$end"
