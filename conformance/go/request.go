package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubelet/pkg/apis/credentialprovider/install"
)

// newKubeletRequest writes what a provider reads from its stdin.
func newKubeletRequest() func(json.RawMessage) answer {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	return func(raw json.RawMessage) answer {
		c := read[struct {
			ConfigAPIVersion string            `json:"configApiVersion"`
			Image            string            `json:"image"`
			Token            string            `json:"token"`
			Annotations      map[string]string `json:"annotations"`
		}](raw)
		version, err := schema.ParseGroupVersion(c.ConfigAPIVersion)
		if !ok || err != nil || !scheme.IsVersionRegistered(version) {
			return answer{Broken: "a version that cannot be configured"}
		}
		request := &credentialproviderapi.CredentialProviderRequest{
			Image:                     c.Image,
			ServiceAccountToken:       c.Token,
			ServiceAccountAnnotations: c.Annotations,
		}
		text, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, version), request)
		if err != nil {
			return answer{Broken: err.Error()}
		}
		return answer{Expect: object{"stdin": string(text)}}
	}
}
