// A TLS server that reports what it saw of its clients. A line of JSON on stdin opens a listener or asks what the
// requests since the last question were; the answer is a line of JSON on stdout.
package main

import (
	"bufio"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
)

// order is one line of stdin.
type order struct {
	// Listen is an address such as `127.0.0.1:0`; without it the line is a question.
	Listen      string `json:"listen"`
	Plain       bool   `json:"plain"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	// Clients is the bundle of the authorities whose clients are let in; with none every client is.
	Clients string        `json:"clients"`
	Version uint16        `json:"version"`
	Curves  []tls.CurveID `json:"curves"`
	// Away is where `/away/CODE` redirects to.
	Away string `json:"away"`
}

// request is what was seen of one request.
type request struct {
	Method      string              `json:"method"`
	Target      string              `json:"target"`
	Host        string              `json:"host"`
	Headers     map[string][]string `json:"headers"`
	Name        string              `json:"name"`
	Version     uint16              `json:"version"`
	Curve       string              `json:"curve"`
	Certificate string              `json:"certificate"`
	Chain       int                 `json:"chain"`
}

var (
	mutex sync.Mutex
	seen  = []request{}
)

func main() {
	log.SetOutput(io.Discard)
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var o order
		answer := map[string]any{}
		if err := json.Unmarshal(line, &o); err != nil {
			answer["error"] = err.Error()
		} else if o.Listen == "" {
			mutex.Lock()
			answer["seen"] = seen
			seen = []request{}
			mutex.Unlock()
		} else if port, err := listen(o); err != nil {
			answer["error"] = err.Error()
		} else {
			answer["port"] = port
		}
		if err := answers.Encode(answer); err != nil {
			return
		}
	}
}

func listen(o order) (int, error) {
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(o, w, r) }), ErrorLog: log.Default()}
	if o.Plain {
		go server.Serve(listener)
		return port, nil
	}
	pair, err := tls.X509KeyPair([]byte(o.Certificate), []byte(o.Key))
	if err != nil {
		return 0, err
	}
	config := &tls.Config{
		Certificates:     []tls.Certificate{pair},
		MinVersion:       o.Version,
		MaxVersion:       o.Version,
		CurvePreferences: o.Curves,
		ClientAuth:       tls.RequestClientCert,
	}
	if o.Clients != "" {
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM([]byte(o.Clients))
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	server.TLSConfig = config
	go server.ServeTLS(listener, "", "")
	return port, nil
}

func answer(o order, w http.ResponseWriter, r *http.Request) {
	note := request{Method: r.Method, Target: r.RequestURI, Host: r.Host, Headers: r.Header}
	if state := r.TLS; state != nil {
		note.Name, note.Version, note.Curve = state.ServerName, state.Version, state.CurveID.String()
		note.Chain = len(state.PeerCertificates)
		if note.Chain > 0 {
			note.Certificate = state.PeerCertificates[0].SerialNumber.Text(16)
		}
	}
	mutex.Lock()
	seen = append(seen, note)
	mutex.Unlock()
	const text = "{\"kind\": \"Version\"}\n"
	path := r.URL.Path
	var code int
	switch {
	case path == "/gzip" && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		packed.Write([]byte(strings.Repeat(text, 400)))
		packed.Close()
	case path == "/gzip":
		w.Write([]byte(strings.Repeat(text, 400)))
	case path == "/loop":
		http.Redirect(w, r, "/loop", http.StatusFound)
	case scan(path, "/to/%d", &code):
		w.Header().Set("Location", "/version?redirected=1")
		w.WriteHeader(code)
	case scan(path, "/away/%d", &code):
		w.Header().Set("Location", o.Away)
		w.WriteHeader(code)
	case scan(path, "/status/%d", &code):
		w.WriteHeader(code)
		w.Write([]byte(text))
	default:
		w.Write([]byte(text))
	}
}

func scan(path, form string, code *int) bool {
	n, err := fmt.Sscanf(path, form, code)
	return n == 1 && err == nil
}
