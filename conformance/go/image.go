package main

import (
	"encoding/json"
	"reflect"
	"slices"

	"k8s.io/kubernetes/pkg/credentialprovider"
)

// imageMatch says whether a pattern of the kubelet's configuration covers an image. The answer is the whole case.
func imageMatch(raw json.RawMessage) answer {
	c := read[struct {
		Pattern string `json:"pattern"`
		Image   string `json:"image"`
	}](raw)
	match, err := credentialprovider.URLsMatchStr(c.Pattern, c.Image)
	expect := object{"match": match}
	if _, err := credentialprovider.ParseSchemelessURL(c.Pattern); err != nil {
		expect["patternValid"] = false
		expect["error"] = "pattern_unparsable"
	} else if _, err := credentialprovider.ParseSchemelessURL(c.Image); err != nil {
		expect["error"] = "image_unparsable"
	}
	said := ""
	if err != nil {
		said = err.Error()
	}
	return answer{Expect: expect, Said: said}
}

// keyring adds configurations in order and looks images up.
func keyring(raw json.RawMessage) answer {
	first := fillKeyring(raw)
	// Where two entries of one configuration fold to one key, the order of a map decides.
	for range 6 {
		if again := fillKeyring(raw); !reflect.DeepEqual(again, first) {
			return answer{Unstable: true}
		}
	}
	return first
}

func fillKeyring(raw json.RawMessage) answer {
	c := read[struct {
		Configs []json.RawMessage `json:"configs"`
		Images  []string          `json:"images"`
		Expect  struct {
			OK struct {
				Lookups []struct {
					Image string `json:"image"`
				} `json:"lookups"`
			} `json:"ok"`
		} `json:"expect"`
	}](raw)
	for _, lookup := range c.Expect.OK.Lookups {
		c.Images = append(c.Images, lookup.Image)
	}
	ring := &credentialprovider.BasicDockerKeyring{}
	for _, text := range c.Configs {
		config, err := credentialprovider.ReadDockerConfigFileFromBytes(text)
		if err != nil {
			return answer{Expect: object{"error": object{"class": "decode"}}, Said: err.Error()}
		}
		ring.Add(nil, config)
	}
	lookups := []any{}
	for _, image := range c.Images {
		creds := []string{}
		found, _ := ring.Lookup(image)
		for _, login := range found {
			creds = append(creds, login.Username+":"+login.Password)
		}
		lookups = append(lookups, object{"image": image, "creds": creds})
	}
	index := reflect.ValueOf(ring).Elem().FieldByName("index")
	keys := []string{}
	for i := range index.Len() {
		keys = append(keys, index.Index(i).String())
	}
	return answer{Expect: object{"ok": object{"index": slices.Clip(keys), "lookups": lookups}}}
}
