#!/bin/sh
# A provider that fails, as one does that cannot reach its own service.
echo 'the vault is sealed' >&2
exit 1
