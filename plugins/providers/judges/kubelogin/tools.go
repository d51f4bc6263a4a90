//go:build tools

// Package kubelogin names the program that the bench runs beside `keyward-entra`, so that the module knows it. It has
// a module of its own, because it needs other versions of Kubernetes' libraries than the judges.
package kubelogin

import _ "github.com/Azure/kubelogin"
