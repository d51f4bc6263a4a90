package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
)

type kubeconfigCase struct {
	Files      map[string]string `json:"files"`
	ExtraFiles map[string]string `json:"extraFiles"`
	Load       struct {
		Kubeconfig []string `json:"kubeconfig"`
		Explicit   string   `json:"explicit"`
		Bytes      string   `json:"bytes"`
		Relative   bool     `json:"relative"`
		Symlink    []string `json:"symlink"`
	} `json:"load"`
	Overrides map[string]any `json:"overrides"`
	Op        string         `json:"op"`
}

// newKubeconfig loads and resolves kubeconfigs, then sets up the transport.
func newKubeconfig(scratch string) func(json.RawMessage) answer {
	home := filepath.Join(scratch, "home of nobody")
	return func(raw json.RawMessage) answer {
		os.Setenv("HOME", home)
		c := read[kubeconfigCase](raw)
		first := c.answer()
		spoken := false
		for name, text := range c.Files {
			spoken = spoken || alpha.MatchString(text)
			c.Files[name] = alpha.ReplaceAllString(text, group+"v1beta1")
		}
		if spoken && first.Broken == "" && !first.Unstable {
			first.Spoken = c.answer().Expect
		}
		return first
	}
}

func (c *kubeconfigCase) answer() answer {
	// As deep as ours: a path may climb out of it.
	folder, err := os.MkdirTemp("", "keyward-case-")
	if err != nil {
		return answer{Broken: err.Error()}
	}
	defer os.RemoveAll(folder)
	if err := c.lay(folder); err != nil {
		return answer{Broken: err.Error()}
	}
	back, err := os.Getwd()
	if err != nil {
		return answer{Broken: err.Error()}
	}
	os.Chdir(folder)
	defer os.Chdir(back)
	return hide(c.play(folder), folder)
}

func (c *kubeconfigCase) lay(folder string) error {
	for _, files := range []map[string]string{c.Files, c.ExtraFiles} {
		for name, content := range files {
			path := filepath.Join(folder, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				return err
			}
		}
	}
	if len(c.Load.Symlink) == 2 {
		link := filepath.Join(folder, c.Load.Symlink[0])
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			return err
		}
		return os.Symlink(filepath.Join(folder, c.Load.Symlink[1]), link)
	}
	return nil
}

func (c *kubeconfigCase) play(folder string) answer {
	overrides, err := overridesOf(c.Overrides, folder)
	if err != nil {
		return answer{Broken: err.Error()}
	}
	rules := &clientcmd.ClientConfigLoadingRules{}
	var config clientcmd.ClientConfig
	var raw *api.Config
	if c.Load.Bytes != "" {
		text, _ := os.ReadFile(filepath.Join(folder, c.Load.Bytes))
		if raw, err = clientcmd.Load(text); err == nil {
			config = clientcmd.NewDefaultClientConfig(*raw, overrides)
		}
	} else {
		listed := []string{}
		for _, path := range c.Load.Kubeconfig {
			if !c.Load.Relative {
				path = filepath.Join(folder, path)
			}
			listed = append(listed, path)
		}
		os.Setenv(clientcmd.RecommendedConfigPathEnvVar, strings.Join(listed, ":"))
		rules = clientcmd.NewDefaultClientConfigLoadingRules()
		if c.Load.Explicit != "" {
			rules.ExplicitPath = filepath.Join(folder, c.Load.Explicit)
		}
		rules.DoNotResolvePaths = c.Op != ""
		raw, err = rules.Load()
		config = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	}
	if err != nil {
		return failed("load", err)
	}
	switch c.Op {
	case "minify":
		if overrides.CurrentContext != "" {
			raw.CurrentContext = overrides.CurrentContext
		}
		if err := api.MinifyConfig(raw); err != nil {
			return failed("minify", err)
		}
		return answer{Expect: object{"ok": rawOf(raw)}}
	case "flatten":
		// Entries are visited in the order of a map: with two faults, either may be named.
		first := failed("flatten", api.FlattenConfig(raw.DeepCopy()))
		for range 6 {
			if again := failed("flatten", api.FlattenConfig(raw.DeepCopy())); again.Said != first.Said {
				return answer{Unstable: true}
			}
		}
		if err := api.FlattenConfig(raw); err != nil {
			return failed("flatten", err)
		}
		return answer{Expect: object{"ok": rawOf(raw)}}
	}
	resolved, err := config.ClientConfig()
	if err != nil {
		return failed("resolve", err)
	}
	namespace, overridden, err := config.Namespace()
	if err != nil {
		return failed("resolve", err)
	}
	ok := resolvedOf(resolved)
	ok["namespace"], ok["namespaceOverridden"] = namespace, overridden
	return answer{Expect: object{"ok": ok}}
}

// overridesOf binds kubectl's flags.
func overridesOf(said map[string]any, folder string) (*clientcmd.ConfigOverrides, error) {
	overrides := &clientcmd.ConfigOverrides{}
	flags := pflag.NewFlagSet("overrides", pflag.ContinueOnError)
	clientcmd.BindOverrideFlags(overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
	args := []string{}
	for name, value := range said {
		if name == "namespace" {
			// kubectl binds this one itself, without looking for a prefix.
			overrides.Context.Namespace = fmt.Sprint(value)
			continue
		}
		list, many := value.([]any)
		if !many {
			list = []any{value}
		}
		for _, value := range list {
			text := strings.ReplaceAll(fmt.Sprint(value), "$DIR", folder)
			args = append(args, fmt.Sprintf("--%s=%s", name, text))
		}
	}
	return overrides, flags.Parse(args)
}

func resolvedOf(config *rest.Config) object {
	ok := object{"server": config.Host, "exec": execOf(config.ExecProvider), "transport": transportOf(config)}
	encode := base64.StdEncoding.EncodeToString
	caData := ""
	if config.CAFile == "" {
		caData = encode(config.CAData)
	}
	provider := ""
	if config.AuthProvider != nil {
		provider = config.AuthProvider.Name
	}
	for name, text := range map[string]string{
		"token": config.BearerToken, "tokenFile": config.BearerTokenFile,
		"caData": caData, "caFile": config.CAFile, "tlsServerName": config.ServerName,
		"clientCertFile": config.CertFile, "clientKeyFile": config.KeyFile,
		"authProvider": provider, "impersonate": config.Impersonate.UserName,
	} {
		if text != "" {
			ok[name] = text
		}
	}
	// The vectors do not record these: absence is said.
	for name, text := range map[string]string{
		"username": config.Username, "password": config.Password, "proxyURL": proxyOf(config),
		"clientCertData": encode(config.CertData), "clientKeyData": encode(config.KeyData),
		"impersonateUID": config.Impersonate.UID,
	} {
		ok[name] = nil
		if text != "" {
			ok[name] = text
		}
	}
	ok["impersonateExtra"] = nil
	if len(config.Impersonate.Extra) > 0 {
		ok["impersonateExtra"] = config.Impersonate.Extra
	}
	if len(config.Impersonate.Groups) > 0 {
		ok["impersonateGroups"] = config.Impersonate.Groups
	}
	if config.Insecure {
		ok["insecure"] = true
	}
	if config.DisableCompression {
		ok["disableCompression"] = true
	}
	return ok
}

func execOf(exec *api.ExecConfig) any {
	if exec == nil {
		return nil
	}
	said := object{
		"apiVersion":         exec.APIVersion,
		"command":            exec.Command,
		"interactiveMode":    exec.InteractiveMode,
		"provideClusterInfo": exec.ProvideClusterInfo,
	}
	if len(exec.Args) > 0 {
		said["args"] = exec.Args
	}
	if len(exec.Env) > 0 {
		env := []any{}
		for _, variable := range exec.Env {
			env = append(env, object{"name": variable.Name, "value": variable.Value})
		}
		said["env"] = env
	}
	if exec.InstallHint != "" {
		said["installHint"] = exec.InstallHint
	}
	if config, isRaw := exec.Config.(*runtime.Unknown); isRaw && config != nil && len(config.Raw) > 0 {
		said["config"] = json.RawMessage(config.Raw)
		said["configRaw"] = string(config.Raw)
	}
	return said
}

func transportOf(config *rest.Config) object {
	wired, err := config.TransportConfig()
	if err != nil {
		return object{"error": classes("transport", err)}
	}
	said := object{"pluginWired": wired.TLS.GetCertHolder != nil}
	if _, err := transport.TLSConfigFor(wired); err != nil {
		said["tlsError"] = true
	}
	return said
}

// rawOf is what a configuration says after flatten or minify.
func rawOf(config *api.Config) object {
	cluster, user := &api.Cluster{}, &api.AuthInfo{}
	if context := config.Contexts[config.CurrentContext]; context != nil {
		if found := config.Clusters[context.Cluster]; found != nil {
			cluster = found
		}
		if found := config.AuthInfos[context.AuthInfo]; found != nil {
			user = found
		}
	}
	encode := base64.StdEncoding.EncodeToString
	said := object{
		"clusters": names(config.Clusters), "contexts": names(config.Contexts), "users": names(config.AuthInfos),
		"caFile": cluster.CertificateAuthority, "caData": encode(cluster.CertificateAuthorityData),
	}
	// The vectors do not record these two where there are none: absence is said.
	said["clientCertData"], said["clientKeyData"] = nil, nil
	for name, text := range map[string]string{
		"tokenFile": user.TokenFile, "clientCertFile": user.ClientCertificate, "clientKeyFile": user.ClientKey,
		"clientCertData": encode(user.ClientCertificateData), "clientKeyData": encode(user.ClientKeyData),
	} {
		if text != "" {
			said[name] = text
		}
	}
	if user.Exec != nil {
		said["execCommand"] = user.Exec.Command
	}
	return said
}

func names[T any](entries map[string]T) []string {
	list := []string{}
	for name := range entries {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func failed(stage string, err error) answer {
	if err == nil {
		return answer{}
	}
	return answer{Expect: object{"error": object{"classes": classes(stage, err), "stage": stage}}, Said: err.Error()}
}

// classes names every error of an aggregate, sorted.
func classes(stage string, err error) []string {
	found := []string{}
	if many, isMany := err.(utilerrors.Aggregate); isMany {
		for _, one := range many.Errors() {
			found = append(found, classes(stage, one)...)
		}
	} else {
		found = append(found, kubeconfigClass(stage, err))
	}
	slices.Sort(found)
	return found
}

// messages of the reference; the first that is in an error's text names it.
var messages = []struct{ text, class string }{
	{"execProvider and authProvider cannot be used in combination", "exec_with_auth_provider"},
	{"authProvider cannot be provided in combination", "exec_with_auth_provider"},
	{"no Auth Provider found for name", "auth_provider_unknown"},
	{"exec plugin: invalid apiVersion", "exec_api_version_unsupported"},
	{"failed to load CA bundle for execProvider", "ca_unreadable"},
	{"for execProvider", "exec_cluster"},
	{"context was not found for specified context", "context_not_found"},
	{"no context chosen", "no_current_context"},
	{"current-context must exist in order to minify", "no_current_context"},
	{"cannot locate context", "context_not_found"},
	{"cannot locate cluster", "cluster_not_found"},
	{"cannot locate user", "user_not_found"},
	{"cluster has no server defined", "no_server"},
	{"no server found for cluster", "no_server"},
	{"invalid 'proxy-url'", "proxy_url_invalid"},
	{"certificate-authority-data and certificate-authority are both specified", "ca_both"},
	{"cannot have values for both path and contents", "ca_both"},
	{"unable to read certificate-authority", "ca_unreadable"},
	{"client-cert-data and client-cert are both specified", "client_cert_both"},
	{"client-key-data and client-key are both specified", "client_key_both"},
	{"client-key-data or client-key must be specified", "client_key_missing"},
	{"unable to read client-cert", "client_cert_unreadable"},
	{"unable to read client-key", "client_key_unreadable"},
	{"command must be specified for", "exec_command_missing"},
	{"apiVersion must be specified for", "exec_api_version_missing"},
	{"env variable name must be specified for", "exec_env_name_missing"},
	{"interactiveMode must be specified for", "exec_interactive_mode_missing"},
	{"invalid interactiveMode for", "exec_interactive_mode_invalid"},
	{"more than one authentication method found for", "multiple_auth_methods"},
	{"without impersonating a user", "impersonation_without_user"},
	{"duplicate name", "duplicate_name"},
}

func kubeconfigClass(stage string, err error) string {
	text := err.Error()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return "empty_config"
	case stage == "load" && os.IsNotExist(err):
		return "file_not_found"
	case stage == "load" && strings.Contains(text, "duplicate name \""):
		return "duplicate_name"
	case stage == "load":
		return "load_error"
	case strings.HasPrefix(text, "context \"") && strings.HasSuffix(text, "\" does not exist"):
		return "override_context_not_found"
	case strings.HasPrefix(text, "auth info \"") && strings.HasSuffix(text, "\" does not exist"):
		return "override_user_not_found"
	case strings.HasPrefix(text, "cluster \"") && strings.HasSuffix(text, "\" does not exist"):
		return "override_cluster_not_found"
	}
	for _, message := range messages {
		if strings.Contains(text, message.text) {
			return message.class
		}
	}
	switch {
	case strings.Contains(text, "no such file or directory"):
		return "file_not_found"
	case strings.HasPrefix(text, "user ") || strings.HasPrefix(text, "user \""):
		return "user_not_found"
	case strings.HasPrefix(text, "cluster "):
		return "cluster_not_found"
	default:
		return "load_error"
	}
}

// hide puts `$DIR` where the folder of this run is named.
func hide(a answer, folder string) answer {
	text, err := json.Marshal(a)
	if err != nil {
		return answer{Broken: err.Error()}
	}
	var hidden answer
	// As they are written: a float cannot hold every integer above 2^53.
	decoder := json.NewDecoder(strings.NewReader(strings.ReplaceAll(string(text), folder, "$DIR")))
	decoder.UseNumber()
	if err := decoder.Decode(&hidden); err != nil {
		return answer{Broken: err.Error()}
	}
	return hidden
}
