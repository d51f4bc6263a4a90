#!/bin/sh
# A provider that the kubelet finds when it starts, and not when it pulls.
exit 1
