package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/pkg/apis/clientauthentication"
	"k8s.io/client-go/plugin/pkg/client/auth/exec"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"net/http"
)

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
	ours := os.Stdin
	count := 0
	return func(raw json.RawMessage) answer {
		c := read[struct {
			ConfigAPIVersion        string         `json:"configApiVersion"`
			InteractiveMode         string         `json:"interactiveMode"`
			StdinIsTerminal         bool           `json:"stdinIsTerminal"`
			StdinUnavailable        bool           `json:"stdinUnavailable"`
			StdinUnavailableMessage string         `json:"stdinUnavailableMessage"`
			ProvideClusterInfo      bool           `json:"provideClusterInfo"`
			Cluster                 map[string]any `json:"cluster"`
		}](raw)
		count++
		folder := filepath.Join(scratch, fmt.Sprintf("input-%d", count))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return answer{Broken: err.Error()}
		}
		defer os.RemoveAll(folder)
		cluster, err := clusterOf(c.Cluster)
		if err != nil {
			return answer{Broken: err.Error()}
		}
		os.Stdin = null
		if c.StdinIsTerminal {
			os.Stdin = terminal
		}
		defer func() { os.Stdin = ours }()
		said := ask(&api.ExecConfig{
			// Links are copied as links: the one of stdin says what stdin is.
			Command:                 "cp",
			Args:                    []string{"-P", "/proc/self/environ", "/proc/self/fd/0", folder},
			APIVersion:              c.ConfigAPIVersion,
			InteractiveMode:         api.ExecInteractiveMode(c.InteractiveMode),
			StdinUnavailable:        c.StdinUnavailable,
			StdinUnavailableMessage: c.StdinUnavailableMessage,
			ProvideClusterInfo:      c.ProvideClusterInfo,
		}, cluster)
		environment, err := os.ReadFile(filepath.Join(folder, "environ"))
		switch {
		case err == nil:
		case strings.Contains(said, "cannot support interactive mode"):
			return answer{Expect: object{"error": object{"class": "interactive"}}, Said: said}
		case strings.Contains(said, "invalid apiVersion"):
			return answer{Expect: object{"error": object{"class": "config_api_version"}}, Said: said}
		default:
			return answer{Expect: object{"error": object{"class": "other"}}, Said: said}
		}
		ok := object{"stdin": "null-device"}
		if target, _ := os.Readlink(filepath.Join(folder, "0")); target != os.DevNull {
			ok["stdin"] = "inherited"
		}
		for _, variable := range bytes.Split(environment, []byte{0}) {
			if value, found := bytes.CutPrefix(variable, []byte("KUBERNETES_EXEC_INFO=")); found {
				ok["execInfo"] = string(value)
			}
		}
		return answer{Expect: object{"ok": ok}}
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
