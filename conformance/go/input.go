package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/pkg/apis/clientauthentication"
	"k8s.io/client-go/plugin/pkg/client/auth/exec"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"net/http"
)

// inputCase is what a plugin is configured with, and where.
type inputCase struct {
	ConfigAPIVersion        string         `json:"configApiVersion"`
	InteractiveMode         string         `json:"interactiveMode"`
	StdinIsTerminal         bool           `json:"stdinIsTerminal"`
	StdinUnavailable        bool           `json:"stdinUnavailable"`
	StdinUnavailableMessage string         `json:"stdinUnavailableMessage"`
	ProvideClusterInfo      bool           `json:"provideClusterInfo"`
	Cluster                 map[string]any `json:"cluster"`
	// Env is `exec.env`, Outer the variables of whoever runs the plugin.
	Env   []variable `json:"env"`
	Outer []variable `json:"outer"`
	// Bare has the plugin looked for in PATH.
	Bare bool `json:"bare"`
}

// variable has its value in `base64` where that is no UTF-8.
type variable struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Base64 string `json:"base64"`
}

// inputs runs a plugin that copies what it was given: links are copied as links, and the one of stdin says what stdin is.
type inputs struct {
	scratch, program string
	terminal, null   *os.File
	count            int
}

// newExecInput runs the authenticator with a plugin that writes down what it was given.
func newExecInput(scratch string) func(json.RawMessage) answer {
	terminal, err := openTerminal()
	if err != nil {
		fatal(fmt.Errorf("no pseudo-terminal: %w", err))
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		fatal(err)
	}
	program, err := osexec.LookPath("cp")
	if err != nil {
		fatal(err)
	}
	inputs := &inputs{scratch: scratch, program: program, terminal: terminal, null: null}
	return func(raw json.RawMessage) answer {
		c := read[inputCase](raw)
		first := inputs.answer(c)
		if c.ConfigAPIVersion == group+"v1alpha1" && first.Broken == "" {
			c.ConfigAPIVersion = group + "v1beta1"
			// There was no cluster to tell of yet.
			c.ProvideClusterInfo = false
			first.Spoken = inputs.answer(c).Expect
		}
		return first
	}
}

func (i *inputs) answer(c inputCase) answer {
	i.count++
	folder := filepath.Join(i.scratch, fmt.Sprintf("input-%d", i.count))
	if err := os.Mkdir(folder, 0o700); err != nil {
		return answer{Broken: err.Error()}
	}
	defer os.RemoveAll(folder)
	cluster, err := clusterOf(c.Cluster)
	if err != nil {
		return answer{Broken: err.Error()}
	}
	ours := os.Stdin
	defer func() { os.Stdin = ours }()
	os.Stdin = i.null
	if c.StdinIsTerminal {
		os.Stdin = i.terminal
	}
	config := &api.ExecConfig{
		Command:                 i.program,
		Args:                    []string{"-P", "/proc/self/environ", "/proc/self/fd/0", folder},
		APIVersion:              c.ConfigAPIVersion,
		InteractiveMode:         api.ExecInteractiveMode(c.InteractiveMode),
		StdinUnavailable:        c.StdinUnavailable,
		StdinUnavailableMessage: c.StdinUnavailableMessage,
		ProvideClusterInfo:      c.ProvideClusterInfo,
	}
	if c.Bare {
		config.Command = filepath.Base(i.program)
	}
	for _, variable := range c.Env {
		config.Env = append(config.Env, api.ExecEnvVar{Name: variable.Name, Value: variable.Value})
	}
	back, err := surround(c.Outer)
	defer back()
	if err != nil {
		return answer{Broken: err.Error()}
	}
	said := ask(config, cluster)
	environment, err := os.ReadFile(filepath.Join(folder, "environ"))
	if err != nil {
		return answer{Expect: object{"error": object{"class": inputClass(said)}}, Said: said}
	}
	ok := object{"stdin": "null-device"}
	if target, _ := os.Readlink(filepath.Join(folder, "0")); target != os.DevNull {
		ok["stdin"] = "inherited"
	}
	given := []string{}
	for variable := range bytes.SplitSeq(bytes.TrimSuffix(environment, []byte{0}), []byte{0}) {
		if value, found := bytes.CutPrefix(variable, []byte("KUBERNETES_EXEC_INFO=")); found {
			ok["execInfo"] = string(value)
		}
		given = append(given, readable(variable))
	}
	// Twice is twice; the order of names means nothing to whoever reads them.
	slices.Sort(given)
	ok["environment"] = given
	return answer{Expect: object{"ok": ok}}
}

// surround makes the variables ours; the function it returns puts the old ones back.
func surround(variables []variable) (func(), error) {
	before := os.Environ()
	back := func() {
		os.Clearenv()
		for _, variable := range before {
			name, value, _ := strings.Cut(variable, "=")
			os.Setenv(name, value)
		}
	}
	os.Clearenv()
	for _, variable := range variables {
		value := variable.Value
		if variable.Base64 != "" {
			decoded, err := base64.StdEncoding.DecodeString(variable.Base64)
			if err != nil {
				return back, err
			}
			value = string(decoded)
		}
		if err := os.Setenv(variable.Name, value); err != nil {
			return back, err
		}
	}
	return back, nil
}

// readable is the text, or its Base64 where it is none.
func readable(variable []byte) string {
	if utf8.Valid(variable) {
		return string(variable)
	}
	return "base64:" + base64.StdEncoding.EncodeToString(variable)
}

func inputClass(said string) string {
	switch {
	case strings.Contains(said, "cannot support interactive mode"):
		return "interactive"
	case strings.Contains(said, "invalid apiVersion"):
		return "config_api_version"
	case strings.Contains(said, "environment variable contains NUL"):
		return "nul"
	case strings.Contains(said, "exec: executable ") && strings.Contains(said, " not found"):
		return "not_found"
	default:
		return "other"
	}
}

// ask makes one request; the plugin's silence fails it after the run.
func ask(config *api.ExecConfig, cluster *clientauthentication.Cluster) string {
	authenticator, err := exec.GetAuthenticator(config, cluster)
	if err != nil {
		return err.Error()
	}
	wired := &transport.Config{}
	if err := authenticator.UpdateTransportConfig(wired); err != nil {
		return err.Error()
	}
	request, err := http.NewRequest(http.MethodGet, "https://reference.invalid/", nil)
	if err != nil {
		return err.Error()
	}
	none := roundTripper(func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("sent") })
	_, err = wired.WrapTransport(none).RoundTrip(request)
	return fmt.Sprint(err)
}

func clusterOf(said map[string]any) (*clientauthentication.Cluster, error) {
	if said == nil {
		return nil, nil
	}
	cluster := &clientauthentication.Cluster{}
	for name, value := range said {
		text, _ := value.(string)
		flag, _ := value.(bool)
		switch strings.ReplaceAll(strings.ToLower(name), "-", "") {
		case "server":
			cluster.Server = text
		case "tlsservername":
			cluster.TLSServerName = text
		case "insecure", "insecureskiptlsverify":
			cluster.InsecureSkipTLSVerify = flag
		case "cadata", "certificateauthoritydata":
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				data = []byte(text)
			}
			cluster.CertificateAuthorityData = data
		case "proxyurl":
			cluster.ProxyURL = text
		case "disablecompression":
			cluster.DisableCompression = flag
		case "configrawjson":
			if !json.Valid([]byte(text)) {
				return nil, fmt.Errorf("an extension that is no JSON cannot come out of a kubeconfig")
			}
			cluster.Config = &runtime.Unknown{Raw: []byte(text), ContentType: runtime.ContentTypeJSON}
		default:
			return nil, fmt.Errorf("the case has a field %q that nobody knows", name)
		}
	}
	return cluster, nil
}

// openTerminal makes a pseudo-terminal whose other end stays open with us.
func openTerminal() (*os.File, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	var number, unlock int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(value))); code != 0 {
			return nil, code
		}
	}
	keep = master
	return os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
}

var keep *os.File
