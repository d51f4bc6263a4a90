#!/bin/sh
# A provider that never answers.
exec sleep 1000
