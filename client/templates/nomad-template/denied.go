package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// mayNotRead reports whether the name of missing data is that of a variable that the identity of the task may not read. The
// library treats such a variable like one that does not exist.
func (r *renderer) mayNotRead(name string) bool {
	kind, rest, _ := strings.Cut(strings.TrimSuffix(name, ")"), "(")
	at := strings.LastIndexByte(rest, '@')
	if !strings.HasPrefix(kind, "nomad.var.") || kind == "nomad.var.list" || at < 0 {
		return false
	}
	namespace, region, _ := strings.Cut(rest[at+1:], ".")
	ctx, cancel := context.WithTimeout(context.Background(), dialMax)
	defer cancel()
	query := url.Values{"namespace": {namespace}}
	if region != "global" { // the name of the library for no region
		query.Set("region", region)
	}
	target := url.URL{Scheme: "http", Host: "agent", Path: "/v1/var/" + rest[:at], RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return false
	}
	req.Header.Set("X-Nomad-Token", r.spec.Token)
	transport := &http.Transport{DialContext: socket{}.DialContext, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusForbidden
}
