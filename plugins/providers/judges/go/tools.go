//go:build tools

// Package judges names the programs that run beside ours, so that the module knows them.
package judges

import (
	_ "github.com/GoogleCloudPlatform/docker-credential-gcr/v2"
	_ "github.com/awslabs/amazon-ecr-credential-helper/ecr-login/cli/docker-credential-ecr-login"
	_ "k8s.io/cloud-provider-aws/cmd/ecr-credential-provider"
	_ "sigs.k8s.io/aws-iam-authenticator/cmd/aws-iam-authenticator"
)
