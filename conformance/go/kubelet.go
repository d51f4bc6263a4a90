package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/plugin"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

// The registration reads and checks a configuration with these two and keeps what they say: their results are
// taken from the same functions.

//go:linkname readConfig k8s.io/kubernetes/pkg/credentialprovider/plugin.readCredentialProviderConfig
func readConfig(path string) (*kubeletconfig.CredentialProviderConfig, string, error)

//go:linkname validateConfig k8s.io/kubernetes/pkg/credentialprovider/plugin.validateCredentialProviderConfig
func validateConfig(config *kubeletconfig.CredentialProviderConfig, tokens bool) field.ErrorList

// quiet keeps the reference from logging every case that it refuses.
func quiet() {
	klog.SetLogger(logr.Discard())
}

// newKubeletConfig reads the kubelet's configuration of credential providers.
func newKubeletConfig(scratch string) func(json.RawMessage) answer {
	var count atomic.Int64
	return func(raw json.RawMessage) answer {
		c := read[struct {
			Files map[string]string `json:"files"`
			Path  string            `json:"path"`
		}](raw)
		folder := filepath.Join(scratch, fmt.Sprintf("kubelet-%d", count.Add(1)))
		defer os.RemoveAll(folder)
		if err := os.Mkdir(folder, 0o700); err != nil {
			return answer{Broken: err.Error()}
		}
		for name, content := range c.Files {
			path := filepath.Join(folder, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return answer{Broken: err.Error()}
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				return answer{Broken: err.Error()}
			}
		}
		config, hash, err := readConfig(filepath.Join(folder, c.Path))
		if err != nil {
			class := readClass(err)
			return answer{Expect: object{"error": object{"classes": []string{class}, "stage": "read"}}, Said: err.Error()}
		}
		if faults := validateConfig(config, true); len(faults) > 0 {
			classes := []string{}
			for _, fault := range faults {
				classes = append(classes, fmt.Sprintf("%s:%s", fault.Field, kinds[fault.Type]))
			}
			expect := object{"error": object{"classes": classes, "stage": "validate"}, "hash": hash}
			return answer{Expect: expect, Said: faults.ToAggregate().Error()}
		}
		providers := []any{}
		for _, provider := range config.Providers {
			said := object{
				"name":                      provider.Name,
				"apiVersion":                provider.APIVersion,
				"matchImages":               provider.MatchImages,
				"defaultCacheDurationNanos": provider.DefaultCacheDuration.Nanoseconds(),
			}
			if len(provider.Args) > 0 {
				said["args"] = provider.Args
			}
			if len(provider.Env) > 0 {
				env := []any{}
				for _, variable := range provider.Env {
					env = append(env, object{"name": variable.Name, "value": variable.Value})
				}
				said["env"] = env
			}
			if tokens := provider.TokenAttributes; tokens != nil {
				// What stands in them; the vectors say only that they are there.
				said["tokenAttributes"] = object{
					"audience":  tokens.ServiceAccountTokenAudience,
					"cacheType": tokens.CacheType,
					"require":   tokens.RequireServiceAccount,
					"required":  append([]string{}, tokens.RequiredServiceAccountAnnotationKeys...),
					"optional":  append([]string{}, tokens.OptionalServiceAccountAnnotationKeys...),
				}
			}
			providers = append(providers, said)
		}
		return answer{Expect: object{"ok": object{"providers": providers}, "hash": hash}}
	}
}

var kinds = map[field.ErrorType]string{
	field.ErrorTypeRequired:     "FieldValueRequired",
	field.ErrorTypeNotSupported: "FieldValueNotSupported",
	field.ErrorTypeDuplicate:    "FieldValueDuplicate",
	field.ErrorTypeForbidden:    "FieldValueForbidden",
	field.ErrorTypeInvalid:      "FieldValueInvalid",
}

func readClass(err error) string {
	inner := errors.Unwrap(err)
	switch {
	case strings.HasPrefix(err.Error(), "duplicate provider name"):
		return "duplicate_provider"
	case inner != nil && runtime.IsStrictDecodingError(inner):
		return "strict_decode"
	case strings.HasPrefix(err.Error(), "error decoding config"):
		return "decode"
	default:
		return "unreadable"
	}
}

// newKubeletResponse registers one provider for each version and asks it for an image that names the case.
func newKubeletResponse(scratch string) func(json.RawMessage) answer {
	folder := filepath.Join(scratch, "responses")
	recorders, err := register(folder)
	if err != nil {
		fatal(err)
	}
	var count atomic.Int64
	return func(raw json.RawMessage) answer {
		c := read[struct {
			ConfigAPIVersion string `json:"configApiVersion"`
			Stdout           string `json:"stdout"`
		}](raw)
		version := strings.TrimPrefix(c.ConfigAPIVersion, "credentialprovider.kubelet.k8s.io/")
		recorder := recorders[version]
		if recorder == nil || version == c.ConfigAPIVersion {
			return answer{Broken: "a version that cannot be configured"}
		}
		name := fmt.Sprintf("%d", count.Add(1))
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(c.Stdout), 0o600); err != nil {
			return answer{Broken: err.Error()}
		}
		defer os.Remove(path)
		return recorder.ask(version + ".registry.io/" + name)
	}
}

// recorder stands between a provider and its plugin and keeps what the plugin's answer was read as.
type recorder struct {
	plugin.Plugin
	store cache.Store
	said  sync.Map
}

type outcome struct {
	response *credentialproviderapi.CredentialProviderResponse
	err      error
}

func (r *recorder) ExecPlugin(ctx context.Context, image, token string, annotations map[string]string) (*credentialproviderapi.CredentialProviderResponse, error) {
	response, err := r.Plugin.ExecPlugin(ctx, image, token, annotations)
	r.said.Store(image, outcome{response, err})
	return response, err
}

func (r *recorder) ask(image string) answer {
	asked := plugin.NewExternalCredentialProviderDockerKeyring("", "", "", "")
	before := len(r.store.ListKeys())
	asked.Lookup(image)
	kept := len(r.store.ListKeys()) - before
	if err := r.store.Replace(nil, ""); err != nil {
		return answer{Broken: err.Error()}
	}
	said, _ := r.said.LoadAndDelete(image)
	got := said.(outcome)
	if got.err != nil {
		return answer{Expect: object{"error": object{"class": responseClass(got.err.Error())}}, Said: got.err.Error()}
	}
	auth := []string{}
	for pattern, login := range got.response.Auth {
		auth = append(auth, fmt.Sprintf("%s=%s:%s", pattern, login.Username, login.Password))
	}
	slices.Sort(auth)
	ok := object{
		"auth":               auth,
		"cacheDurationNanos": nil,
		"cacheKeyType":       got.response.CacheKeyType,
		"cachedEntries":      kept,
		// A response that is not accepted is not kept either, nor is one that is to be used once.
		"providerAccepts": kept > 0 || once(got.response),
	}
	if got.response.CacheDuration != nil {
		ok["cacheDurationNanos"] = got.response.CacheDuration.Nanoseconds()
	}
	return answer{Expect: object{"ok": ok}}
}

func once(response *credentialproviderapi.CredentialProviderResponse) bool {
	known := []credentialproviderapi.PluginCacheKeyType{
		credentialproviderapi.ImagePluginCacheKeyType,
		credentialproviderapi.RegistryPluginCacheKeyType,
		credentialproviderapi.GlobalPluginCacheKeyType,
	}
	return response.CacheDuration != nil && response.CacheDuration.Duration == 0 && slices.Contains(known, response.CacheKeyType)
}

func responseClass(text string) string {
	switch {
	case strings.HasPrefix(text, "error reading GVK from response"):
		return "type_unreadable"
	case strings.HasPrefix(text, "apiVersion from credential plugin response did not match"):
		return "version_mismatch"
	case strings.HasPrefix(text, "error decoding credential provider plugin response"):
		return "decode"
	default:
		return "unclassified"
	}
}

// register makes providers that print the file an image is named after, and puts a recorder into each.
func register(folder string) (map[string]*recorder, error) {
	programs := filepath.Join(folder, "bin")
	if err := os.MkdirAll(programs, 0o700); err != nil {
		return nil, err
	}
	script := fmt.Sprintf("#!/bin/sh\nread -r request\nname=${request##*.registry.io/}\nexec cat '%s'/\"${name%%%%\\\"*}\"\n", folder)
	text := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	versions := []string{"v1alpha1", "v1beta1", "v1"}
	for _, version := range versions {
		if err := os.WriteFile(filepath.Join(programs, version), []byte(script), 0o700); err != nil {
			return nil, err
		}
		text += fmt.Sprintf("- name: %s\n  matchImages: [%s.registry.io]\n  defaultCacheDuration: 1m\n  apiVersion: credentialprovider.kubelet.k8s.io/%s\n", version, version, version)
	}
	path := filepath.Join(folder, "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := plugin.RegisterCredentialProviderPlugins(path, programs, nil, nil); err != nil {
		return nil, err
	}
	ring := reflect.ValueOf(plugin.NewExternalCredentialProviderDockerKeyring("", "", "", ""))
	providers := ring.Elem().FieldByName("providers")
	recorders := map[string]*recorder{}
	for i, version := range versions {
		provider := providers.Index(i).Elem().Elem().FieldByName("provider").Elem()
		inner := open(provider.FieldByName("plugin"))
		recorder := &recorder{
			Plugin: inner.Interface().(plugin.Plugin),
			store:  open(provider.FieldByName("cache")).Interface().(cache.Store),
		}
		inner.Set(reflect.ValueOf(plugin.Plugin(recorder)))
		recorders[version] = recorder
	}
	return recorders, nil
}

// open makes a field that is not exported usable.
func open(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
}
