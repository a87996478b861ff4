package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	allocservice "github.com/open-nomad/open-nomad/nomad/allocs"
	"github.com/open-nomad/open-nomad/nomad/evals"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
	"github.com/open-nomad/open-nomad/nomad/jobs"
	"github.com/open-nomad/open-nomad/nomad/services"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// filled has n jobs, each with an allocation and an evaluation, in a number of namespaces.
func filled(tb testing.TB, n int, namespaces int64) *state.Store {
	tb.Helper()
	s := state.New()
	rows := allocRows(n)
	for at := range slices.Chunk(rows, 1000) {
		tx := s.Write(s.Read().Index()+1, time.Now())
		for _, a := range at {
			ns := fmt.Sprint("ns", a.CreateTime%namespaces)
			j := &api.Job{
				ID: fmt.Sprintf("job-%06d", a.CreateTime), Name: "job", Namespace: ns, Type: api.JobTypeService, Priority: 50, Datacenters: []string{"dc1"}, NodePool: "default",
				TaskGroups: []*api.TaskGroup{{Name: "g", Count: 1, Tasks: []*api.Task{{Name: "t", Driver: "raw_exec"}}}},
			}
			a.Namespace, a.JobID, a.Job = ns, j.ID, j
			tx.PutJob(j)
			tx.PutEval(&api.Evaluation{ID: a.ID, Namespace: ns, JobID: j.ID, Type: j.Type, Priority: 50, TriggeredBy: "job-register", Status: api.EvalStatusComplete})
			tx.PutAlloc(a)
		}
		tx.Commit()
	}
	return s
}

// pages serves the lists of a state over HTTP, with access control when there are rules for callers without a token.
func pages(tb testing.TB, s *state.Store, rules string) *httptest.Server {
	tb.Helper()
	log := hclog.NewNullLogger()
	gate := access.New(access.Config{State: s, Enabled: rules != ""})
	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.PutACLPolicy(&api.ACLPolicy{Name: api.AnonymousPolicy, Rules: rules})
	tx.Commit()
	var handlers []wire.Handler
	for _, service := range []interface{ Handlers() []wire.Handler }{
		jobs.New(jobs.Config{Log: log, State: s}), allocservice.New(allocservice.Config{Log: log, State: s}), evals.New(evals.Config{Log: log, State: s}),
		services.New(services.Config{State: s}),
	} {
		for _, h := range service.Handlers() {
			serve, needs := h.Serve, h.Needs
			h.Serve = func(ctx context.Context, req any) (any, error) {
				ctx, err := gate.Admit(ctx, needs, req)
				if err != nil {
					return nil, err
				}
				return serve(ctx, req)
			}
			handlers = append(handlers, h)
		}
	}
	server := httptest.NewServer(httpapi.New(httpapi.Config{Servers: wire.Direct(handlers...), Region: "global"}))
	tb.Cleanup(server.Close)
	return server
}

// BenchmarkPage reads a page of 100 rows out of 50,000.
func BenchmarkPage(b *testing.B) {
	const rows, pageRows, reads = 50_000, 100, 100
	s := filled(b, rows, 10)
	plain := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	half := ""
	for n := 5; n < 10; n++ {
		half += fmt.Sprintf("namespace \"ns%d\" { policy = \"read\" }\n", n)
	}
	for rights, rules := range map[string]string{"all": "", "half": half} {
		server := pages(b, s, rules)
		for _, list := range []string{"jobs", "allocations", "evaluations"} {
			b.Run(list+"/"+rights, func(b *testing.B) {
				url := fmt.Sprintf("%s/v1/%s?namespace=*&per_page=%d", server.URL, list, pageRows)
				var took []time.Duration
				for b.Loop() {
					for range reads {
						start := time.Now()
						r, err := plain.Get(url)
						if err != nil {
							b.Fatal(err)
						}
						if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != http.StatusOK || r.Header.Get("X-Nomad-NextToken") == "" {
							b.Fatalf("status %d, %v", r.StatusCode, err)
						}
						_ = r.Body.Close()
						took = append(took, time.Since(start))
					}
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2])/float64(time.Millisecond), "ms-p50")
			})
		}
	}
}

// BenchmarkFilteredList reads the list of 10,000 jobs in 100 namespaces without access control, with a policy that permits
// each namespace by a rule, and with one that permits half of them.
func BenchmarkFilteredList(b *testing.B) {
	const rows, namespaces, reads = 10_000, 100, 15
	s := filled(b, rows, namespaces)
	var rules [2]string // all namespaces, half of them
	for n := range namespaces {
		rule := fmt.Sprintf("namespace \"ns%d\" { policy = \"read\" }\n", n)
		rules[0] += rule
		if n%2 == 0 {
			rules[1] += rule
		}
	}
	plain := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	read := func(server *httptest.Server) (size int64, took time.Duration) {
		began := time.Now()
		r, err := plain.Get(server.URL + "/v1/jobs?namespace=*")
		if err != nil {
			b.Fatal(err)
		}
		defer r.Body.Close()
		if size, err = io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != http.StatusOK {
			b.Fatalf("status %d, %v", r.StatusCode, err)
		}
		return size, time.Since(began)
	}
	for i, name := range []string{"all", "half"} {
		b.Run(name, func(b *testing.B) {
			open, guarded := pages(b, s, ""), pages(b, s, rules[i])
			var without, with []time.Duration
			for b.Loop() {
				for range reads {
					all, took := read(open)
					without = append(without, took)
					seen, took := read(guarded)
					with = append(with, took)
					if i == 0 && seen != all || i == 1 && (seen < all*4/10 || seen > all*6/10) {
						b.Fatalf("%d of %d bytes are shown", seen, all)
					}
				}
			}
			slices.Sort(without)
			slices.Sort(with)
			b.ReportMetric(float64(with[len(with)/2])/float64(time.Millisecond), "ms-p50")
			b.ReportMetric(float64(with[len(with)/2])/float64(without[len(without)/2]), "of-unfiltered")
		})
	}
}
