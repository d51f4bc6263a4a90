#!/bin/sh
# A plugin in the form of the original proposal: a verb, a request on stdin that it need not read, and one login.
[ "$1" = get-credentials ] || exit 2
cat > /dev/null
printf '{"kind":"RegistryCredentialPluginResponse","apiVersion":"v1alpha1","username":"%s","password":"%s"}\n' \
    "$USERNAME" "$PASSWORD"
