package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
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

// ask measures requests on a connection that is there: one after another, or so many at once.
func ask(j job) (figures, error) {
	known, ok := askers[j.Config]
	if !ok {
		var err error
		if known, err = open(j.Config); err != nil {
			return figures{}, err
		}
		askers[j.Config] = known
	}
	if j.Callers > 1 {
		return abreast(j, known.ask)
	}
	return each(j, known.ask)
}

// abreast measures one of the turns of a job of which so many are under way at any time.
func abreast(j job, once func() error) (figures, error) {
	turns := max(j.Turns/j.Callers, 1)
	failures := make([]error, j.Callers)
	var wait sync.WaitGroup
	start := time.Now()
	for caller := range j.Callers {
		wait.Go(func() {
			for range turns {
				if err := once(); err != nil {
					failures[caller] = err
					return
				}
			}
		})
	}
	wait.Wait()
	took := float64(time.Since(start).Nanoseconds())
	return figures{Nanos: took / float64(turns*j.Callers)}, errors.Join(failures...)
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

// thread is one that a goroutine has for itself, and the time it had a processor before.
type thread float64

// alone gives the goroutine a thread of its own.
func alone() thread {
	runtime.LockOSThread()
	return thread(threadTime())
}

// worked is the time that it has had a processor since, in nanoseconds.
func (t thread) worked() float64 {
	return threadTime() - float64(t)
}

func (thread) release() {
	runtime.UnlockOSThread()
}

func threadTime() float64 {
	const thisThread = 1
	var usage syscall.Rusage
	if err := syscall.Getrusage(thisThread, &usage); err != nil {
		return 0
	}
	return float64(usage.Utime.Nano() + usage.Stime.Nano())
}
