package main

import (
	"errors"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/credentialprovider"
)

// lookup finds the first pattern that covers an image as the kubelet's provider does: one after the other.
func lookup(j job) (figures, error) {
	if j.Turns < 1 || len(j.Images) == 0 {
		return figures{}, errors.New("no turns or no images")
	}
	start := time.Now()
	for turn := range j.Turns {
		// In no order that the patterns have.
		image := j.Images[turn*367%len(j.Images)]
		for _, pattern := range j.Patterns {
			if match, err := credentialprovider.URLsMatchStr(pattern, image); err == nil && match {
				break
			}
		}
	}
	return figures{Nanos: float64(time.Since(start).Nanoseconds()) / float64(j.Turns)}, nil
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
