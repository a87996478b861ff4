package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// serving returns an allocation that offers a service.
func serving(id, service string, tags ...string) *api.Allocation {
	j := &api.Job{ID: id, Name: id, Namespace: api.DefaultNamespace, Type: api.JobTypeService, TaskGroups: []*api.TaskGroup{{
		Name: "g", Tasks: []*api.Task{{Name: "t"}}, Services: []*api.Service{{Name: service, Provider: "nomad", PortLabel: "80", Tags: tags}},
	}}}
	return &api.Allocation{
		ID: id, Namespace: j.Namespace, JobID: id, Job: j, NodeID: "n1", TaskGroup: "g", DesiredStatus: api.AllocDesiredStatusRun,
		ClientStatus: api.AllocClientStatusRunning, TaskStates: map[string]*api.TaskState{"t": {State: api.TaskStateRunning}},
	}
}

// offering is the state of a node that offers n services, each of them once.
func offering(n int) *state.Store {
	s := state.New()
	tx := s.Write(1, time.Now())
	tx.PutNode(&api.Node{ID: "n1", Datacenter: "dc1", Attributes: map[string]string{"unique.network.ip-address": "127.0.0.1"}})
	for i := range n {
		a := serving(fmt.Sprintf("a%06d", i), fmt.Sprintf("service-%06d", i), "one", "two")
		tx.PutJob(a.Job)
		tx.PutAlloc(a)
	}
	tx.Commit()
	return s
}

// BenchmarkServices reads the list of 10,000 services over HTTP.
func BenchmarkServices(b *testing.B) {
	const services, reads = 10_000, 200
	server := pages(b, offering(services), "")
	plain := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	var took []time.Duration
	for b.Loop() {
		for range reads {
			began := time.Now()
			r, err := plain.Get(server.URL + "/v1/services")
			if err != nil {
				b.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != http.StatusOK || n < services*int64(len("service-000000")) {
				b.Fatalf("status %d, %d bytes, %v", r.StatusCode, n, err)
			}
			_ = r.Body.Close()
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100])/float64(time.Millisecond), "ms-p99")
}

// BenchmarkServiceChange measures the time from a change of a service until 1,000 blocking queries over HTTP have returned it.
func BenchmarkServiceChange(b *testing.B) {
	const readers, rounds = 1000, 10
	s := offering(100)
	server := pages(b, s, "")
	plain := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: readers}}
	read := func(index uint64) (uint64, error) {
		r, err := plain.Get(fmt.Sprintf("%s/v1/service/service-000007?wait=1m&index=%d", server.URL, index))
		if err != nil {
			return 0, err
		}
		defer r.Body.Close()
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return 0, err
		}
		return strconv.ParseUint(r.Header.Get("X-Nomad-Index"), 10, 64)
	}
	var worst time.Duration
	for b.Loop() {
		for round := range rounds {
			index, err := read(0)
			if err != nil {
				b.Fatal(err)
			}
			var done sync.WaitGroup
			for range readers {
				done.Go(func() {
					if next, err := read(index); err != nil || next <= index {
						b.Errorf("index %d after %d, %v", next, index, err)
					}
				})
			}
			time.Sleep(2 * time.Second) // all of them wait
			began := time.Now()
			tx := s.Write(s.Read().Index()+1, began)
			tx.PutAlloc(serving("a000007", "service-000007", fmt.Sprint("round", round)))
			tx.Commit()
			done.Wait()
			worst = max(worst, time.Since(began))
		}
	}
	b.ReportMetric(float64(worst)/float64(time.Millisecond), "ms-slowest-of-1000")
}
