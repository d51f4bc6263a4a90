// The reference on the clock: measures the code of client-go and of the kubelet on the work that the bench gives it. A
// job is a line of JSON on stdin, its figures a line of JSON on stdout.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

// job is what to measure. Each kind of work uses the fields it needs.
type job struct {
	Work     string   `json:"work"`
	Config   string   `json:"config"`
	Context  string   `json:"context"`
	Command  string   `json:"command"`
	Args     []string `json:"args"`
	Patterns []string `json:"patterns"`
	Images   []string `json:"images"`
	Turns    int      `json:"turns"`
	Threads  int      `json:"threads"`
	Callers  int      `json:"callers"`
	Bare     bool     `json:"bare"`
}

// figures is what was measured: nanoseconds, and whatever else the work counts.
type figures struct {
	Nanos       float64 `json:"nanos"`
	Worst       float64 `json:"worst,omitempty"`
	Worked      float64 `json:"worked,omitempty"`
	Allocations float64 `json:"allocations,omitempty"`
	Text        string  `json:"text,omitempty"`
	Error       string  `json:"error,omitempty"`
}

var works = map[string]func(job) (figures, error){
	"match":      lookup,
	"kubeconfig": kubeconfig,
	"request":    request,
	"run":        run,
	"crowd":      crowd,
	"ask":        ask,
	"first":      first,
	"shake":      shake,
	"versions":   versions,
}

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if err := answers.Encode(answer(line)); err != nil {
			return
		}
	}
}

func answer(line []byte) figures {
	var j job
	if err := json.Unmarshal(line, &j); err != nil {
		return figures{Error: err.Error()}
	}
	work, ok := works[j.Work]
	if !ok {
		return figures{Error: fmt.Sprintf("no such work: %q", j.Work)}
	}
	result, err := work(j)
	if err != nil {
		return figures{Error: err.Error()}
	}
	return result
}
