#!/bin/sh
# An image credential provider in service-account mode: the password is the token that it was given.
set -eu
request=$(cat)
token=$(printf %s "$request" | sed -n 's/.*"serviceAccountToken":"\([^"]*\)".*/\1/p')
purpose=$(printf %s "$request" | sed -n 's/.*"example.org\/purpose":"\([^"]*\)".*/\1/p')
printf '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","cacheDuration":"0s","auth":{"registry.example":{"username":"%s","password":"%s"}}}\n' \
  "$purpose" "$token"
