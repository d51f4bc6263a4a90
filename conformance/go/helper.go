package main

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	clientauthenticationv1beta1 "k8s.io/client-go/pkg/apis/clientauthentication/v1beta1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/auth/exec"
)

// execInfoHelper is the plugin's side: what a plugin written with client-go reads in its environment.
func execInfoHelper(raw json.RawMessage) answer {
	c := read[struct {
		Env *string `json:"env"`
	}](raw)
	if c.Env == nil || *c.Env == "" {
		os.Unsetenv("KUBERNETES_EXEC_INFO")
		_, _, err := exec.LoadExecCredentialFromEnv()
		return answer{Expect: object{"error": object{"class": helperClass(err)}}, Said: err.Error()}
	}
	first := answerHelper(*c.Env)
	if spoken := speak(*c.Env); alpha.MatchString(*c.Env) {
		first.Spoken = answerHelper(spoken).Expect
	}
	return first
}

func answerHelper(env string) answer {
	request, config, err := exec.LoadExecCredential([]byte(env))
	if err != nil {
		return answer{Expect: object{"error": object{"class": helperClass(err)}}, Said: err.Error()}
	}
	ok := object{
		"anonymous":          config.ExecProvider == nil && config.BearerToken == "" && config.CertData == nil,
		"apiVersion":         versionOf(request),
		"server":             config.Host,
		"tlsServerName":      config.ServerName,
		"insecure":           config.Insecure,
		"caData":             base64.StdEncoding.EncodeToString(config.CAData),
		"disableCompression": config.DisableCompression,
	}
	if proxy := proxyOf(config); proxy != "" {
		ok["proxyURL"] = proxy
	}
	return answer{Expect: object{"ok": ok}}
}

// versionOf goes by the type: the fields of the object itself are empty where their names are in another case.
func versionOf(request runtime.Object) string {
	switch request.(type) {
	case *clientauthenticationv1.ExecCredential:
		return clientauthenticationv1.SchemeGroupVersion.String()
	case *clientauthenticationv1beta1.ExecCredential:
		return clientauthenticationv1beta1.SchemeGroupVersion.String()
	default:
		return request.GetObjectKind().GroupVersionKind().GroupVersion().String()
	}
}

func proxyOf(config *rest.Config) string {
	if config.Proxy == nil {
		return ""
	}
	request, _ := http.NewRequest(http.MethodGet, "https://reference.invalid/", nil)
	proxy, err := config.Proxy(request)
	if err != nil || proxy == nil {
		return ""
	}
	return proxy.String()
}

func helperClass(err error) string {
	text := err.Error()
	switch {
	case strings.HasPrefix(text, "KUBERNETES_EXEC_INFO env var is unset"):
		return "env_missing"
	case strings.HasPrefix(text, "decode: "):
		return "decode"
	case strings.HasPrefix(text, "invalid group/kind"):
		return "wrong_kind"
	case strings.HasPrefix(text, "ExecCredential does not contain cluster"):
		return "no_cluster_info"
	case strings.HasPrefix(text, "cannot create rest.Config"):
		return "bad_cluster"
	case strings.HasPrefix(text, "cannot convert to ExecCredential"):
		return "bad_conversion"
	default:
		return "unclassified"
	}
}
