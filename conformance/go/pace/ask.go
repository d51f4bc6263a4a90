package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// asker is client-go's HTTP client for the server of a kubeconfig.
type asker struct {
	client *http.Client
	url    string
}

// askers are kept from job to job, and their connections with them.
var askers = map[string]asker{}

// open makes an asker that shares neither credential nor connection with an earlier one.
func open(path string) (asker, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return asker{}, err
	}
	return begin(config)
}

// begin is the same from what was read.
func begin(config *rest.Config) (asker, error) {
	if plugin := config.ExecProvider; plugin != nil {
		mark := api.ExecEnvVar{Name: "DIFFERENT", Value: fmt.Sprint(different.Add(1))}
		plugin.Env = append(plugin.Env, mark)
	}
	// A transport is shared by all that dial with the same function.
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	client, err := rest.HTTPClientFor(config)
	return asker{client, config.Host + "/healthz"}, err
}

func (a asker) ask() error {
	response, err := a.client.Get(a.url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && string(text) != "ok" {
		err = fmt.Errorf("the server did not say ok but %q", text)
	}
	return err
}

// ask measures requests one after another on a connection that is there.
func ask(j job) (figures, error) {
	known, ok := askers[j.Config]
	if !ok {
		var err error
		if known, err = open(j.Config); err != nil {
			return figures{}, err
		}
		askers[j.Config] = known
	}
	return each(j, known.ask)
}

// first measures the way from a kubeconfig to the first answer.
func first(j job) (figures, error) {
	return each(j, func() error {
		fresh, err := open(j.Config)
		if err != nil {
			return err
		}
		defer fresh.client.CloseIdleConnections()
		return fresh.ask()
	})
}

// shake measures a client, its handshake and its first answer, from a kubeconfig that was read before.
func shake(j job) (figures, error) {
	config, err := clientcmd.BuildConfigFromFlags("", j.Config)
	if err != nil {
		return figures{}, err
	}
	return each(j, func() error {
		fresh, err := begin(rest.CopyConfig(config))
		if err != nil {
			return err
		}
		defer fresh.client.CloseIdleConnections()
		return fresh.ask()
	})
}

// each measures one of the turns of a job: its time, and the time that we had a processor for it.
func each(j job, once func() error) (figures, error) {
	turns := max(j.Turns, 1)
	before := worked()
	start := time.Now()
	for range turns {
		if err := once(); err != nil {
			return figures{}, err
		}
	}
	nanos := float64(time.Since(start).Nanoseconds()) / float64(turns)
	return figures{Nanos: nanos, Worked: (worked() - before) / float64(turns)}, nil
}

// worked is the time that all our threads have had a processor, in nanoseconds.
func worked() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return float64(usage.Utime.Nano() + usage.Stime.Nano())
}
