package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd/api"
)

// newPolicy runs plugins of a fixture under a policy; each says which file it is.
func newPolicy(scratch string) func(json.RawMessage) answer {
	scratch, err := filepath.EvalSymlinks(scratch)
	if err != nil {
		fatal(err)
	}
	root := filepath.Join(scratch, "policy")
	if err := layOut(root); err != nil {
		fatal(err)
	}
	system := os.Getenv("PATH")
	return func(raw json.RawMessage) answer {
		c := read[struct {
			Command   string    `json:"command"`
			Policy    string    `json:"policy"`
			Allowlist *[]string `json:"allowlist"`
			Path      string    `json:"PATH"`
		}](raw)
		fill := func(text string) string { return strings.ReplaceAll(text, "$ROOT", root) }
		policy := api.PluginPolicy{PolicyType: api.PolicyType(c.Policy)}
		if c.Allowlist != nil {
			policy.Allowlist = []api.AllowlistEntry{}
			for _, command := range *c.Allowlist {
				policy.Allowlist = append(policy.Allowlist, api.AllowlistEntry{Command: fill(command)})
			}
		}
		home, err := os.Getwd()
		if err != nil {
			return answer{Broken: err.Error()}
		}
		os.Chdir(root)
		path := fill(c.Path) + ":" + system
		if strings.ContainsRune(path, 0) {
			return answer{Broken: "no variable can hold this"}
		}
		os.Setenv("PATH", path)
		defer func() {
			os.Setenv("PATH", system)
			os.Chdir(home)
		}()
		got, err := obtain(&api.ExecConfig{
			Command:         fill(c.Command),
			APIVersion:      "client.authentication.k8s.io/v1",
			InteractiveMode: api.NeverExecInteractiveMode,
			PluginPolicy:    policy,
			// No two cases share an authenticator.
			InstallHint: string(raw),
		})
		if err != nil {
			class, phase := policyClass(err.Error())
			return answer{Expect: object{"error": object{"class": class, "phase": phase}}, Said: err.Error()}
		}
		return answer{Expect: object{"ok": object{"ranFrom": got.token}}}
	}
}

func layOut(root string) error {
	for _, folder := range []string{"d1", "d2", "d3"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return err
		}
	}
	for _, program := range []string{"d1/plug", "d2/plug", "d1/other"} {
		text := fmt.Sprintf("#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"%s\"}}'\n", filepath.Dir(program))
		if err := os.WriteFile(filepath.Join(root, program), []byte(text), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(root, "d3/noexec"), nil, 0o644); err != nil {
		return err
	}
	for _, link := range []string{"d3/alias", "d3/plug"} {
		if err := os.Symlink(filepath.Join(root, "d1/plug"), filepath.Join(root, link)); err != nil {
			return err
		}
	}
	return nil
}

func policyClass(text string) (string, string) {
	text = strings.TrimPrefix(text, "getting credentials: ")
	switch {
	case strings.HasPrefix(text, "invalid plugin policy"):
		return "invalid_policy", "construct"
	case strings.HasPrefix(text, "plugin path") && strings.Contains(text, "cannot be resolved for credential plugin allowlist check"):
		return "policy_unresolvable", "run"
	case strings.HasPrefix(text, "plugin path") && strings.HasSuffix(text, "is not permitted by the credential plugin allowlist"):
		return "policy_denied_allowlist", "run"
	case strings.HasPrefix(text, "plugin ") && strings.HasSuffix(text, `not allowed: policy set to "DenyAll"`):
		return "policy_denied_all", "run"
	case strings.HasPrefix(text, "exec: executable ") && strings.Contains(text, " not found"):
		return "not_found", "run"
	case strings.HasPrefix(text, "exec: "):
		return "start_failed", "run"
	default:
		return "other", "run"
	}
}
