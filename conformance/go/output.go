package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/plugin/pkg/client/auth/exec"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
)

// newExecOutput runs the authenticator with a plugin that prints the case's stdout.
func newExecOutput(scratch string) func(json.RawMessage) answer {
	var count atomic.Int64
	return func(raw json.RawMessage) answer {
		c := read[struct {
			ConfigAPIVersion string `json:"configApiVersion"`
			Stdout           string `json:"stdout"`
		}](raw)
		path := filepath.Join(scratch, fmt.Sprintf("stdout-%d", count.Add(1)))
		defer os.Remove(path)
		first := answerOutput(c.ConfigAPIVersion, c.Stdout, path)
		if c.ConfigAPIVersion == group+"v1alpha1" {
			first.Spoken = answerOutput(speak(c.ConfigAPIVersion), speak(c.Stdout), path).Expect
		}
		return first
	}
}

func answerOutput(version, stdout, path string) answer {
	if err := os.WriteFile(path, []byte(stdout), 0o600); err != nil {
		return answer{Broken: err.Error()}
	}
	got, err := obtain(&api.ExecConfig{
		Command:         "cat",
		Args:            []string{path},
		APIVersion:      version,
		InteractiveMode: api.NeverExecInteractiveMode,
	})
	if err != nil {
		return answer{Expect: object{"error": outputClass(err.Error())}, Said: err.Error()}
	}
	ok := object{"token": got.token, "hasCert": got.pair != nil, "expiry": nil}
	if !got.expiry.IsZero() {
		ok["expiry"] = got.expiry.UTC().Format(time.RFC3339Nano)
	}
	if got.pair != nil {
		ok["chainLength"] = len(got.pair.Certificate)
		ok["leafCommonName"] = got.pair.Leaf.Subject.CommonName
	}
	return answer{Expect: object{"ok": ok}}
}

// credential is what an authenticator would put on a connection.
type credential struct {
	token  string
	pair   *tls.Certificate
	expiry time.Time
}

// obtain asks a new authenticator the way a transport does.
func obtain(config *api.ExecConfig) (*credential, error) {
	authenticator, err := exec.GetAuthenticator(config, nil)
	if err != nil {
		return nil, err
	}
	wired := &transport.Config{}
	if err := authenticator.UpdateTransportConfig(wired); err != nil {
		return nil, err
	}
	request, err := http.NewRequest(http.MethodGet, "https://reference.invalid/", nil)
	if err != nil {
		return nil, err
	}
	sent := make(http.Header)
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = r.Header.Clone()
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
	})
	if _, err := wired.WrapTransport(base).RoundTrip(request); err != nil {
		return nil, err
	}
	// An expired answer would run the plugin once more; what it is for is known by now.
	expiry := expiry(authenticator)
	got := &credential{token: strings.TrimPrefix(sent.Get("Authorization"), "Bearer "), expiry: expiry}
	got.pair, err = wired.TLS.GetCertHolder.GetCert()
	return got, err
}

// expiry reads the only part of a credential that an authenticator keeps to itself.
func expiry(authenticator *exec.Authenticator) time.Time {
	field := reflect.ValueOf(authenticator).Elem().FieldByName("exp")
	wall, ext := field.FieldByName("wall").Uint(), field.FieldByName("ext").Int()
	if wall == 0 && ext == 0 {
		return time.Time{}
	}
	// Without a monotonic part, ext is the seconds since year 1 and wall the nanoseconds.
	return time.Unix(ext-62135596800, int64(wall&(1<<30-1)))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// outputClass says in the words of the vectors what is wrong with an answer.
func outputClass(text string) object {
	text = strings.TrimPrefix(text, "getting credentials: ")
	decoding, isDecoding := strings.CutPrefix(text, "decoding stdout: ")
	switch {
	case isDecoding:
		return object{"class": "decode", "detail": decodeDetail(decoding)}
	case strings.HasPrefix(text, "exec plugin: invalid apiVersion"):
		return object{"class": "config_api_version"}
	case strings.HasPrefix(text, "exec plugin is configured to use API version"):
		return object{"class": "version_mismatch"}
	case strings.HasPrefix(text, "exec plugin didn't return a status"):
		return object{"class": "missing_status"}
	case strings.HasPrefix(text, "exec plugin didn't return a token"):
		return object{"class": "missing_credentials"}
	case strings.HasPrefix(text, "exec plugin returned only certificate or key"):
		return object{"class": "partial_cert"}
	case strings.HasPrefix(text, "failed parsing client"):
		return object{"class": "bad_cert"}
	default:
		return object{"class": "unclassified"}
	}
}

func decodeDetail(text string) string {
	peek, inPeek := strings.CutPrefix(text, "couldn't get version/kind; json parse error: ")
	switch {
	case inPeek && strings.HasPrefix(peek, "json: cannot unmarshal"):
		return "not_an_object_or_bad_type_meta"
	case inPeek:
		return "syntax"
	case strings.HasPrefix(text, "unexpected GroupVersion string"):
		return "bad_api_version_string"
	case strings.HasPrefix(text, "no kind "), strings.HasPrefix(text, "Object 'apiVersion' is missing"):
		return "unknown_type"
	case strings.Contains(text, "unknown conversion"), strings.HasPrefix(text, "converting "),
		strings.HasPrefix(text, "unable to decode "):
		return "other_registered_type"
	case strings.HasPrefix(text, "parsing time "), strings.HasPrefix(text, "Time.UnmarshalJSON"):
		return "timestamp"
	case strings.Contains(text, "cannot unmarshal"), strings.Contains(text, "illegal base64"):
		return "field_type"
	default:
		return "syntax"
	}
}
