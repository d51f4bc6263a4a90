package main

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/plugin/pkg/client/auth/exec"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
)

// settled answers every request at once, so that only what goes before it is measured.
type settled struct{}

func (settled) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: request}, nil
}

// different keeps client-go from sharing one authenticator among measurements.
var different atomic.Int64

// layer is client-go's authentication for the plugin of a job, in front of a server that says yes.
func layer(j job) (http.RoundTripper, error) {
	authenticator, err := exec.GetAuthenticator(&api.ExecConfig{
		Command:         j.Command,
		Args:            j.Args,
		Env:             []api.ExecEnvVar{{Name: "DIFFERENT", Value: fmt.Sprint(different.Add(1))}},
		APIVersion:      "client.authentication.k8s.io/v1",
		InteractiveMode: api.NeverExecInteractiveMode,
	}, nil)
	if err != nil {
		return nil, err
	}
	wired := &transport.Config{}
	if err := authenticator.UpdateTransportConfig(wired); err != nil {
		return nil, err
	}
	return wired.WrapTransport(settled{}), nil
}

// get makes the request that everybody is measured with.
func get() (*http.Request, error) {
	const url = "https://server.invalid/api/v1/namespaces/default/pods"
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"Accept", "User-Agent", "Accept-Encoding"} {
		request.Header.Set(name, "application/json")
	}
	return request, nil
}

// request measures a request whose credential is there, on each of several threads, or what it costs
// without a layer. It is the time of all our threads: freeing what was allocated is work too.
func request(j job) (figures, error) {
	through, err := layer(j)
	if err != nil {
		return figures{}, err
	}
	if j.Bare {
		through = settled{}
	}
	warm, err := get()
	if err != nil {
		return figures{}, err
	}
	if _, err := through.RoundTrip(warm); err != nil {
		return figures{}, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wait sync.WaitGroup
	start := worked()
	for range max(j.Threads, 1) {
		wait.Go(func() {
			mine := warm.Clone(warm.Context())
			for range j.Turns {
				delete(mine.Header, "Authorization")
				if _, err := through.RoundTrip(mine); err != nil {
					panic(err)
				}
			}
		})
	}
	wait.Wait()
	took := worked() - start
	runtime.ReadMemStats(&after)
	requests := float64(j.Turns * max(j.Threads, 1))
	return figures{
		Nanos:       took / requests,
		Allocations: float64(after.Mallocs-before.Mallocs) / requests,
	}, nil
}

// run measures requests that each need a run of the plugin.
func run(j job) (figures, error) {
	start := time.Now()
	for range j.Turns {
		through, err := layer(j)
		if err != nil {
			return figures{}, err
		}
		once, err := get()
		if err != nil {
			return figures{}, err
		}
		if _, err := through.RoundTrip(once); err != nil {
			return figures{}, err
		}
	}
	return figures{Nanos: float64(time.Since(start).Nanoseconds()) / float64(j.Turns)}, nil
}

// crowd measures how long callers wait who all come at once while there is no credential. Their wait
// begins when they are let go, not when the scheduler gets round to them.
func crowd(j job) (figures, error) {
	through, err := layer(j)
	if err != nil {
		return figures{}, err
	}
	waits := make([]time.Duration, j.Callers)
	var failed atomic.Pointer[error]
	var wait, ready sync.WaitGroup
	ready.Add(j.Callers)
	gate := make(chan struct{})
	var start time.Time
	for caller := range j.Callers {
		wait.Go(func() {
			once, err := get()
			ready.Done()
			<-gate
			if err == nil {
				_, err = through.RoundTrip(once)
			}
			if err != nil {
				failed.Store(&err)
			}
			waits[caller] = time.Since(start)
		})
	}
	ready.Wait()
	start = time.Now()
	close(gate)
	wait.Wait()
	if err := failed.Load(); err != nil {
		return figures{}, *err
	}
	slices.Sort(waits)
	return figures{
		Nanos: float64(waits[len(waits)*99/100].Nanoseconds()),
		Worst: float64(waits[len(waits)-1].Nanoseconds()),
	}, nil
}
