// Command verifier checks tokens with the code of aws-iam-authenticator. It reads a case as JSON on each line of stdin
// and prints what the verifier says of it.
//
// In the place of AWS STS is one that knows the keys of the case and computes the signature with the AWS SDK, as STS
// would: it refuses a signature that does not fit, and one for another region than its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"sigs.k8s.io/aws-iam-authenticator/pkg/token"
)

// A token, who made it and who checks it.
type testCase struct {
	Token     string
	Cluster   string
	Partition string
	Region    string
	Key       string
	Secret    string
	Session   string
}

// SHA-256 of nothing.
const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

type standIn struct{ current testCase }

func (s *standIn) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := s.check(request); err != nil {
		return answer(http.StatusForbidden, fmt.Sprintf(`{"Error":{"Code":"SignatureDoesNotMatch","Message":%q}}`, err)), nil
	}
	arn := "arn:aws:iam::123456789012:user/" + s.current.Key
	body := fmt.Sprintf(`{"GetCallerIdentityResponse":{"GetCallerIdentityResult":{"Account":"123456789012","Arn":%q,"UserId":"AIDA"}}}`, arn)
	return answer(http.StatusOK, body), nil
}

func (s *standIn) check(request *http.Request) error {
	query := request.URL.Query()
	scope := strings.Split(query.Get("X-Amz-Credential"), "/")
	if len(scope) != 5 || scope[0] != s.current.Key {
		return fmt.Errorf("an unknown access key")
	}
	labels := strings.Split(request.URL.Host, ".")
	if len(labels) > 3 && labels[1] != scope[2] {
		return fmt.Errorf("signed for %s, not for %s", scope[2], labels[1])
	}
	if query.Get("X-Amz-Security-Token") != s.current.Session {
		return fmt.Errorf("another session token")
	}
	moment, err := time.Parse("20060102T150405Z", query.Get("X-Amz-Date"))
	if err != nil {
		return err
	}
	signature := query.Get("X-Amz-Signature")
	again := url.Values{}
	for _, name := range []string{"Action", "Version", "X-Amz-Expires"} {
		again.Set(name, query.Get(name))
	}
	fresh, err := http.NewRequest(http.MethodGet, "https://"+request.URL.Host+"/?"+again.Encode(), nil)
	if err != nil {
		return err
	}
	fresh.Header.Set("x-k8s-aws-id", request.Header.Get("x-k8s-aws-id"))
	keys := aws.Credentials{AccessKeyID: s.current.Key, SecretAccessKey: s.current.Secret, SessionToken: s.current.Session}
	signed, _, err := v4.NewSigner().PresignHTTP(context.Background(), keys, fresh, empty, "sts", scope[2], moment)
	if err != nil {
		return err
	}
	parsed, err := url.Parse(signed)
	if err != nil {
		return err
	}
	if parsed.Query().Get("X-Amz-Signature") != signature {
		return fmt.Errorf("the signature does not fit")
	}
	return nil
}

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}
}

func main() {
	sts := &standIn{}
	http.DefaultTransport = sts
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &sts.current); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		said := map[string]string{}
		verifier := token.NewVerifier(sts.current.Cluster, sts.current.Partition, sts.current.Region)
		if identity, err := verifier.Verify(sts.current.Token); err != nil {
			said["refusal"] = err.Error()
		} else {
			said["arn"] = identity.ARN
		}
		if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
			os.Exit(1)
		}
	}
}
