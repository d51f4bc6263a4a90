// The reference's side of the conformance harness: answers cases, one JSON object a line, by running the code of
// client-go and of the kubelet. An answer has the form of the `expect` of the vectors.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"sync"
)

// question is one line of stdin. Lines of one batch are all of one area.
type question struct {
	Area string          `json:"area"`
	Case json.RawMessage `json:"case"`
}

// answer is one line of stdout, in the order of the questions.
type answer struct {
	// Expect is what the reference does, in the words of the vectors.
	Expect any `json:"expect,omitempty"`
	// Said is the reference's own message, for people.
	Said string `json:"said,omitempty"`
	// Spoken is what the reference does once v1alpha1, which it knows no more, is replaced by v1beta1.
	Spoken any `json:"spoken,omitempty"`
	// Unstable says that the reference answers this case one way today and another way tomorrow.
	Unstable bool `json:"unstable,omitempty"`
	// Broken says that the case could not be put to the reference at all.
	Broken string `json:"broken,omitempty"`
}

// area answers the cases of one kind. Those that change the process (its directory, variables, stdin) go one by one.
type area struct {
	answer   func(json.RawMessage) answer
	parallel bool
}

type object = map[string]any

// group is how a version of the exec protocol begins.
const group = "client.authentication.k8s.io/"

// speak puts v1beta1 in place of v1alpha1 in a text, and another version in place of v1beta1.
func speak(text string) string {
	return alpha.ReplaceAllString(beta.ReplaceAllString(text, group+"v1"), group+"v1beta1")
}

var alpha, beta = spelt(group + "v1alpha1"), spelt(group + "v1beta1")

// spelt finds a text with or without the escapes of JSON.
func spelt(text string) *regexp.Regexp {
	pattern := ""
	for _, letter := range text {
		plain := regexp.QuoteMeta(string(letter))
		pattern += fmt.Sprintf(`(?:\\?%s|\\u(?i:%04x))`, plain, letter)
	}
	return regexp.MustCompile(pattern)
}

func main() {
	scratch, err := os.MkdirTemp("", "keyward-reference-")
	if err != nil {
		fatal(err)
	}
	defer os.RemoveAll(scratch)
	quiet()
	areas := map[string]area{
		"exec-output":      {newExecOutput(scratch), true},
		"exec-input":       {newExecInput(scratch), false},
		"exec-info-helper": {execInfoHelper, true},
		"kubeconfig":       {newKubeconfig(scratch), false},
		"plugin-policy":    {newPolicy(scratch), false},
		"image-match":      {imageMatch, true},
		"keyring":          {keyring, true},
		"kubelet-config":   {newKubeletConfig(scratch), true},
		"kubelet-request":  {newKubeletRequest(), true},
		"kubelet-response": {newKubeletResponse(scratch), false},
	}
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		batch, err := readBatch(input)
		if err != nil {
			fatal(err)
		}
		if batch == nil {
			return
		}
		for _, answer := range run(areas, batch) {
			line, err := json.Marshal(answer)
			if err != nil {
				fatal(err)
			}
			output.Write(line)
			output.WriteByte('\n')
		}
		if err := output.Flush(); err != nil {
			fatal(err)
		}
	}
}

// readBatch reads lines up to an empty one; nil is the end.
func readBatch(input *bufio.Reader) ([]question, error) {
	batch := []question{}
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return nil, nil
		}
		if len(line) == 1 {
			return batch, nil
		}
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			return nil, fmt.Errorf("a question that is no JSON: %w", err)
		}
		batch = append(batch, q)
	}
}

func run(areas map[string]area, batch []question) []answer {
	answers := make([]answer, len(batch))
	one := func(i int) {
		defer func() {
			if fault := recover(); fault != nil {
				answers[i] = answer{Expect: object{"panic": true}, Said: fmt.Sprint(fault)}
			}
		}()
		answers[i] = areas[batch[i].Area].answer(batch[i].Case)
	}
	if len(batch) == 0 || !areas[batch[0].Area].parallel {
		for i := range batch {
			one(i)
		}
		return answers
	}
	var wait sync.WaitGroup
	places := make(chan int)
	for range 2 * runtime.NumCPU() {
		wait.Go(func() {
			for i := range places {
				one(i)
			}
		})
	}
	for i := range batch {
		places <- i
	}
	close(places)
	wait.Wait()
	return answers
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "reference:", err)
	os.Exit(1)
}

// read fills a case from its JSON.
func read[T any](raw json.RawMessage) T {
	var c T
	if err := json.Unmarshal(raw, &c); err != nil {
		panic(fmt.Sprintf("a case of another form: %v", err))
	}
	return c
}
