package main

import (
	"errors"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/credentialprovider"
)

// lookup finds the first pattern that covers an image as the kubelet's provider does: one after the other.
func lookup(j job) (figures, error) {
	if j.Turns < 1 || len(j.Images) == 0 {
		return figures{}, errors.New("no turns or no images")
	}
	before := alone()
	defer before.release()
	for turn := range j.Turns {
		// In no order that the patterns have.
		image := j.Images[turn*367%len(j.Images)]
		for _, pattern := range j.Patterns {
			if match, err := credentialprovider.URLsMatchStr(pattern, image); err == nil && match {
				break
			}
		}
	}
	return figures{Nanos: before.worked() / float64(j.Turns)}, nil
}

// versions tells what is measured here.
func versions(job) (figures, error) {
	var found []string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/client-go" || module.Path == "k8s.io/kubernetes" {
				found = append(found, module.Path+" "+module.Version)
			}
		}
		found = append(found, info.GoVersion)
	}
	return figures{Text: strings.Join(found, ", ")}, nil
}

// kubeconfig loads a file and resolves one context of it.
func kubeconfig(j job) (figures, error) {
	start := time.Now()
	for range max(j.Turns, 1) {
		rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: j.Config}
		overrides := &clientcmd.ConfigOverrides{CurrentContext: j.Context}
		config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
		if _, err := config.ClientConfig(); err != nil {
			return figures{}, err
		}
	}
	return figures{Nanos: float64(time.Since(start).Nanoseconds()) / float64(max(j.Turns, 1))}, nil
}
