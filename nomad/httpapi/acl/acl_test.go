package acl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
	"github.com/open-nomad/open-nomad/nomad/secrets/secretstest"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// servers is a server with access control, without a network and a disk.
type servers struct {
	gate     *access.Gate
	state    *state.Store
	handlers []wire.Handler
}

func start(enabled bool) (*servers, http.Handler) {
	store := state.New()
	s := &servers{gate: access.New(access.Config{State: store, Enabled: enabled}), state: store}
	service := acl.New(acl.Config{Secrets: secretstest.NewBox(), State: store, Raft: fsm.NewLocal(store, fsm.NewRegistry(acl.Commands)), Enabled: enabled})
	s.handlers = append(service.Handlers(), wire.JobList.Handle(func(context.Context, *api.JobListRequest) (*api.JobListResponse, error) {
		return &api.JobListResponse{QueryMeta: api.QueryMeta{Index: 1}}, nil
	}))
	return s, httpapi.New(httpapi.Config{Servers: s, AccessControl: enabled})
}

func (s *servers) Invoke(ctx context.Context, method string, req, resp any) error {
	i := slices.IndexFunc(s.handlers, func(h wire.Handler) bool { return h.Name == method })
	if i < 0 {
		return fault.New(fault.Unimplemented, "unknown method %s", method)
	}
	ctx, err := s.gate.Admit(ctx, s.handlers[i].Needs, req)
	if err != nil {
		return err
	}
	got, err := s.handlers[i].Serve(ctx, req)
	if err == nil {
		reflect.ValueOf(resp).Elem().Set(reflect.ValueOf(got).Elem())
	}
	return err
}

// at makes the next entry of the log the one with the index.
func (s *servers) at(index uint64) {
	s.state.Write(index-1, time.Now()).Commit()
}

func send(h http.Handler, method, path, token, body string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
	if token != "" {
		r.Header.Set("X-Nomad-Token", token)
	}
	h.ServeHTTP(w, r)
	return w
}

type exchange struct {
	Name, Method, Path, Token, Authorization string
	Body                                     any
	Status                                   int
	Index                                    string
	Answer                                   any
}

// TestRecordedExchanges replays what another server of the compatible system answered. The secrets and ids that this server
// makes take the places of the recorded ones in later requests.
func TestRecordedExchanges(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded []exchange
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	s, h := start(true)
	s.at(11)
	names := map[string]string{}
	for _, e := range recorded {
		if strings.HasPrefix(e.Name, "535") {
			s.at(20) // an auth method and a binding rule were created
		}
		now := func(text string) string {
			for recorded, made := range names {
				text = strings.ReplaceAll(text, recorded, made)
			}
			return text
		}
		body := ""
		if e.Body != nil {
			b, err := json.Marshal(e.Body)
			if err != nil {
				t.Fatal(err)
			}
			body = now(string(b))
		}
		r, w := httptest.NewRequest(e.Method, now(e.Path), strings.NewReader(body)), httptest.NewRecorder()
		for name, value := range map[string]string{"X-Nomad-Token": e.Token, "Authorization": e.Authorization} {
			if value != "" {
				r.Header.Set(name, now(value))
			}
		}
		h.ServeHTTP(w, r)
		if index := w.Header().Get("X-Nomad-Index"); w.Code != e.Status || index != e.Index {
			t.Errorf("%s: code %d and index %q, want %d and %q: %s", e.Name, w.Code, index, e.Status, e.Index, w.Body)
			continue
		}
		var got any
		if text, ok := e.Answer.(string); ok {
			if i := strings.Index(text, "failed to parse rules: "); i > 0 { // the mistakes are in words of our own
				text, got = text[:i], w.Body.String()[:min(i, w.Body.Len())]
			} else {
				got = w.Body.String()
			}
			e.Answer = text
		} else if w.Body.Len() > 0 {
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
		}
		if diff := differ("", e.Answer, got, names); diff != "" {
			t.Errorf("%s:%s", e.Name, diff)
		}
	}
}

var isID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// differ compares an answer with the recorded one. It adds new ids to the names, and ignores hashes and times.
func differ(path string, want, got any, names map[string]string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("\n%s: %v, want %v", path, got, want)
		}
		diff := ""
		for k, v := range w {
			diff += differ(path+"."+k, v, g[k], names)
		}
		return diff
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("\n%s: %v, want %v", path, got, want)
		}
		diff := ""
		for i := range w {
			diff += differ(fmt.Sprintf("%s[%d]", path, i), w[i], g[i], names)
		}
		return diff
	case string:
		g, ok := got.(string)
		if ok && isID.MatchString(w) && isID.MatchString(g) && names[w] == "" {
			names[w] = g
		}
		if made := names[w]; made != "" {
			w = made
		}
		unsure := strings.HasSuffix(path, "Hash") || strings.HasSuffix(path, "Time") || strings.HasSuffix(path, "At")
		if ok && (g == w || unsure && g != "") {
			return ""
		}
	default:
		if reflect.DeepEqual(want, got) {
			return ""
		}
	}
	return fmt.Sprintf("\n%s: %v, want %v", path, got, want)
}

func TestAccessControlThatIsOffIsNamed(t *testing.T) {
	t.Parallel()
	_, h := start(false)
	for _, line := range []string{
		"GET /v1/acl/tokens", "PUT /v1/acl/bootstrap {}", "GET /v1/acl/token/self", "GET /v1/acl/policies", "DELETE /v1/acl/policy/p",
		`PUT /v1/acl/role {"Name":"r"}`, "PUT /v1/acl/token/onetime", `PUT /v1/acl/token/onetime/exchange {"OneTimeSecretID":"x"}`,
	} {
		method, rest, _ := strings.Cut(line, " ")
		path, body, _ := strings.Cut(rest, " ")
		if w := send(h, method, path, "", body); w.Code != 400 || w.Body.String() != "ACL support disabled" {
			t.Errorf("%s: %d %s", line, w.Code, w.Body)
		}
	}
}

func TestBodiesAgreeWithPaths(t *testing.T) {
	t.Parallel()
	_, h := start(true)
	for line, want := range map[string]string{
		`/v1/acl/policy/a {"Name":"b"}`:      "ACL policy name does not match request path",
		`/v1/acl/token/a {"AccessorID":"b"}`: "ACL token accessor does not match request path",
		`/v1/acl/role/a {"ID":"b"}`:          "ACL role ID does not match request path",
	} {
		path, body, _ := strings.Cut(line, " ")
		if w := send(h, "PUT", path, "", body); w.Code != 400 || w.Body.String() != want {
			t.Errorf("%s: %d %s", line, w.Code, w.Body)
		}
	}
}

func TestTokensAreListedInPages(t *testing.T) {
	t.Parallel()
	s, h := start(true)
	tx := s.state.Write(2, time.Now())
	for _, id := range []string{"a1", "a2", "a3", "b1"} {
		tx.PutACLToken(&api.ACLToken{AccessorID: id, SecretID: "secret " + id, Type: api.ACLManagementToken, Global: id == "a2"})
	}
	tx.Commit()
	for query, want := range map[string]string{
		"":                              "a1 a2 a3 b1 ",
		"prefix=a":                      "a1 a2 a3 ",
		"reverse=true":                  "b1 a3 a2 a1 ",
		"global=true":                   "a2 ",
		"per_page=2":                    "a1 a2 next a3",
		"per_page=2&next_token=a3":      "a3 b1 ",
		`filter=AccessorID+==+"b1"`:     "b1 ",
		`filter=Global+==+true&prefix=`: "a2 ",
	} {
		w := send(h, "GET", "/v1/acl/tokens?"+query, "secret b1", "")
		var rows []api.ACLTokenListStub
		if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil {
			t.Fatalf("%s: %v: %s", query, err, w.Body)
		}
		got := ""
		for _, r := range rows {
			got += r.AccessorID + " "
		}
		if next := w.Header().Get("X-Nomad-NextToken"); next != "" {
			got += "next " + next
		}
		if got != want || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %s, want %q", query, w.Body, want)
		}
	}
}
