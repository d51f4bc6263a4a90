//go:build tools

// Package judges names the programs that the bench runs beside ours, so that the module knows them.
package judges

import _ "sigs.k8s.io/aws-iam-authenticator/cmd/aws-iam-authenticator"
