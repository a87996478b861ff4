package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/allocs/row"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// sink is an answer that nobody reads.
type sink struct {
	header http.Header
	bytes  int
}

func (s *sink) Header() http.Header { return s.header }

func (s *sink) WriteHeader(int) {}

func (s *sink) Write(b []byte) (int, error) {
	s.bytes += len(b)
	return len(b), nil
}

// allocRows are allocations as they stand in state: by id, five of a time.
func allocRows(n int) []*api.Allocation {
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]*api.Allocation, 0, n)
	for i := range n {
		id := fmt.Sprintf("%08x-%04x-4000-8000-%012x", random.Uint32(), i&0xffff, i)
		job := fmt.Sprint("j", i/5)
		rows = append(rows, &api.Allocation{
			ID: id, EvalID: id, Name: job + ".g[0]", Namespace: "default", NodeID: id, NodeName: "n1", JobID: job, Job: &api.Job{Type: "service", Version: 2},
			TaskGroup: "g", DesiredStatus: "run", ClientStatus: "running", CreateIndex: uint64(i/5 + 10), ModifyIndex: uint64(n),
			TaskStates: map[string]*api.TaskState{"t": {State: "running", StartedAt: time.Unix(int64(i), 0).UTC()}},
			CreateTime: int64(i), ModifyTime: int64(i),
		})
	}
	slices.SortFunc(rows, func(a, b *api.Allocation) int { return strings.Compare(a.ID, b.ID) })
	return rows
}

// allocs is a cluster that has these allocations.
func allocs(rows []*api.Allocation) *cluster {
	c := newCluster()
	on(c, wire.AllocList, func(r *api.AllocListRequest) (*api.AllocRowsResponse, error) {
		rows, meta, err := paged(r.QueryOptions, rows, func(a *api.Allocation) string { return state.AgeToken(a.CreateIndex, a.ID) })
		return &api.AllocRowsResponse{Allocs: rows, QueryMeta: meta}, err
	})
	return c
}

func TestLongListIsOneDocument(t *testing.T) {
	rows := allocRows(500)
	before := slices.Clone(rows)
	want := make([]*api.AllocStub, 0, len(rows))
	for _, a := range rows {
		want = append(want, row.Of(a))
	}
	slices.SortFunc(want, func(a, b *api.AllocStub) int {
		return strings.Compare(fmt.Sprintf("%020d.%s", a.CreateIndex, a.ID), fmt.Sprintf("%020d.%s", b.CreateIndex, b.ID))
	})
	h := handler(allocs(rows))
	compact := send(h, "GET", "/v1/allocations", "").Body.String()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(compact), "", "    "); err != nil {
		t.Fatal(err)
	}
	var got, wanted any
	whole, _ := json.Marshal(want)
	if err := errors.Join(json.Unmarshal([]byte(compact), &got), json.Unmarshal(whole, &wanted)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("the list differs (-want +got):\n%s", diff)
	}
	for query, text := range map[string]string{"": compact, "?pretty": pretty.String() + "\n"} {
		w := send(h, "GET", "/v1/allocations"+query, "")
		if w.Code != http.StatusOK || w.Header().Get("X-Nomad-Index") != "7" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%q: code %d, headers %v", query, w.Code, w.Header())
		}
		if diff := cmp.Diff(text, w.Body.String()); diff != "" {
			t.Errorf("%q differs (-want +got):\n%s", query, diff)
		}
	}
	if !reflect.DeepEqual(rows, before) {
		t.Error("the answer of the call was changed")
	}
}

func TestListShowsWhatIsAskedFor(t *testing.T) {
	rows := allocRows(3)
	for _, a := range rows {
		a.AllocatedResources = &api.AllocatedResources{Shared: api.AllocatedSharedResources{DiskMB: 5}}
	}
	rows[1].ClientStatus = "failed"
	h := handler(allocs(rows))
	for query, want := range map[string]struct {
		rows              int
		states, resources bool
	}{
		"":                                   {3, true, false},
		"?task_states=false":                 {3, false, false},
		"?resources=true":                    {3, true, true},
		"?filter=ClientStatus+%3D%3D+failed": {1, true, false},
		"?filter=Job.Type+%3D%3D+service":    {3, true, false},
		"?per_page=2&filter=Job.Version+%3D%3D+2": {2, true, false},
	} {
		var got []*api.AllocStub
		decode(t, send(h, "GET", "/v1/allocations"+query, ""), &got)
		if len(got) != want.rows {
			t.Errorf("%q: %d rows", query, len(got))
		}
		for _, a := range got {
			if (a.TaskStates != nil) != want.states || (a.AllocatedResources != nil) != want.resources || a.JobType != "service" || a.JobVersion != 2 {
				t.Errorf("%q: %+v", query, a)
			}
		}
	}
}

// Clients know 0 as the index of what never was; within the cluster it is 1.
func TestIndexOfListsOfWhatNeverWas(t *testing.T) {
	c := newCluster()
	on(c, wire.AllocList, func(*api.AllocListRequest) (*api.AllocRowsResponse, error) {
		return &api.AllocRowsResponse{QueryMeta: api.QueryMeta{Index: 1}}, nil
	})
	on(c, wire.DeploymentList, func(*api.QueryOptions) (*api.DeploymentListResponse, error) {
		return &api.DeploymentListResponse{QueryMeta: api.QueryMeta{Index: 1}}, nil
	})
	for path, want := range map[string]string{"/v1/allocations": "0", "/v1/deployments": "1"} {
		if got := send(handler(c), "GET", path, "").Header().Get("X-Nomad-Index"); got != want {
			t.Errorf("%s: index %s, want %s", path, got, want)
		}
	}
}

func TestEmptyListIsAList(t *testing.T) {
	h := handler(allocs(nil))
	for query, want := range map[string]string{"": "[]", "?pretty": "[]\n"} {
		if got := send(h, "GET", "/v1/allocations"+query, "").Body.String(); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}

func TestPagesOfALongListAreTheList(t *testing.T) {
	h := handler(allocs(allocRows(95)))
	for _, reverse := range []string{"", "&reverse=true"} {
		var whole, pages []*api.AllocStub
		decode(t, send(h, "GET", "/v1/allocations?x"+reverse, ""), &whole)
		token := ""
		for {
			var page []*api.AllocStub
			w := send(h, "GET", "/v1/allocations?per_page=10"+reverse+"&next_token="+token, "")
			decode(t, w, &page)
			pages = append(pages, page...)
			if token = w.Header().Get("X-Nomad-NextToken"); token == "" {
				break
			}
		}
		if diff := cmp.Diff(whole, pages); diff != "" {
			t.Errorf("reverse %q differs (-whole +pages):\n%s", reverse, diff)
		}
	}
}

func decode(t *testing.T, w *httptest.ResponseRecorder, into any) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
}

// evalsOf is a cluster with n evaluations, the last of which cannot be encoded.
func evalsOf(n int) *cluster {
	c := newCluster()
	on(c, wire.EvalList, func(*api.EvalListRequest) (*api.EvalListResponse, error) {
		out := &api.EvalListResponse{}
		for i := range n {
			out.Evaluations = append(out.Evaluations, &api.Evaluation{ID: fmt.Sprint("e", i), CreateIndex: uint64(i)})
		}
		out.Evaluations[n-1].FailedTGAllocs = map[string]*api.AllocationMetric{
			"g": {Scores: map[string]float64{"n": math.NaN()}},
		}
		return out, nil
	})
	return c
}

func TestShortListThatCannotBeEncodedIsAnError(t *testing.T) {
	w := send(handler(evalsOf(2)), "GET", "/v1/evaluations", "")
	expect(t, w, http.StatusInternalServerError, "encode answer")
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
		t.Errorf("content type %s", got)
	}
}

func TestLongListThatCannotBeEncodedIsCut(t *testing.T) {
	s := httptest.NewServer(handler(evalsOf(5000)))
	defer s.Close()
	resp, err := http.Get(s.URL + "/v1/evaluations")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err == nil {
		t.Fatalf("%d bytes looked whole", len(got))
	}
}

// BenchmarkAllocList is what the HTTP server adds to a list of 50,000 rows.
func BenchmarkAllocList(b *testing.B) {
	h := handler(allocs(allocRows(50_000)))
	for name, target := range map[string]string{"plain": "", "gzip": "", "filter": "?filter=ClientStatus+%21%3D+running", "page": "?per_page=10"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, "/v1/allocations"+target, nil)
				if name == "gzip" {
					r.Header.Set("Accept-Encoding", "gzip")
				}
				w := &sink{header: http.Header{}}
				h.ServeHTTP(w, r)
				size = w.bytes
			}
			b.ReportMetric(float64(size)/(1<<20), "MiB-sent")
		})
	}
}
