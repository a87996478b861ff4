package nomad_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/internal/soaktest"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

const poisonedNode = "11111111-0000-0000-0000-000000000000"

// ours are the values of a request's fields that make it one that means what is there.
var ours = map[string]string{
	"NodeID": poisonedNode, "NodeSecret": "x", "JobID": "placed", "Namespace": api.DefaultNamespace, "VolumeID": "v", "PluginID": "p",
	"TaskGroup": "g", "Group": "g", "AllocID": "", "Name": "n", "Task": "t",
}

// sane makes a request that is served, or refused for its sense only.
func sane(h wire.Handler, alloc *api.AllocStub) any {
	req := h.New()
	v := reflect.ValueOf(req).Elem()
	for name, text := range ours {
		if name == "AllocID" && alloc != nil {
			text = alloc.ID
		}
		if f := v.FieldByName(name); f.IsValid() && f.Kind() == reflect.String {
			f.SetString(text)
		}
	}
	switch r := req.(type) {
	case *api.JobRegisterRequest:
		r.Job = job("placed")
	case *api.JobPlanRequest:
		r.Job, r.Diff = job("placed"), true
	case *api.JobValidateRequest:
		r.Job = job("placed")
	case *api.NodeRegisterRequest:
		r.Node = poisonable()
	case *api.AllocUpdateRequest:
		if alloc != nil {
			r.Allocs = []*api.Allocation{{ID: alloc.ID, NodeID: poisonedNode, ClientStatus: api.AllocClientStatusRunning}}
		}
	case *api.VolumeRegisterRequest:
		r.Volumes = []*api.VolumeSpec{aVolume()}
	case *api.VolumeCreateRequest:
		r.Volumes = []*api.VolumeSpec{aVolume()}
	}
	return req
}

func aVolume() *api.VolumeSpec {
	return &api.VolumeSpec{
		ID: "v", Name: "v", Namespace: api.DefaultNamespace, PluginID: "p", ExternalID: "x",
		RequestedCapabilities: []*api.VolumeCapability{{AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentFileSystem}},
	}
}

func poisonable() *api.Node {
	n := aNode(poisonedNode)
	n.CSINodePlugins = map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true, NodeInfo: &api.CSINodeInfo{ID: "n", MaxVolumes: 10}}}
	return n
}

// mayWait are the fields that make a request wait.
func mayWait(name string) bool {
	return strings.HasSuffix(name, ".MinIndex") || strings.HasSuffix(name, "Wait") || strings.HasSuffix(name, ".Addresses") || strings.HasSuffix(name, ".LastIndex") || strings.HasSuffix(name, ".Cursor.Next")
}

// stocked is a server with something of everything, and what asks it.
type stocked struct {
	*host
	conn *transport.Conn
	http http.Handler
}

func newStocked(t *testing.T) *stocked {
	t.Helper()
	a := newAuthority(t)
	v := &stocked{host: newHost(t, "a", "global", 1)}
	v.conf.TLS = a.identity("server.global.nomad")
	v.open()
	return v
}

func (v *stocked) open() {
	v.t.Helper()
	v.start()
	until(v.t, "it leads", func() bool { return leads(v.t.Context(), v.server) })
	conn, err := transport.Connect(v.server.Address(), transport.Dialer{TLS: v.conf.TLS.TLS().Client})
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = conn.Close() })
	v.conn = conn
	v.http = httpapi.New(httpapi.Config{Servers: v.server.Caller(), Node: v.server.Node})
}

// must asks for what every server answers.
func must[Req, Resp any](v *stocked, m wire.Method[Req, Resp], req *Req) *Resp {
	v.t.Helper()
	out, err := m.Call(v.t.Context(), v.server.Caller(), req)
	if err != nil {
		v.t.Fatalf("%s: %v", m.Name, err)
	}
	return out
}

// settle puts everything there, or there again; it returns an allocation.
func (v *stocked) settle() *api.AllocStub {
	v.t.Helper()
	must(v, wire.NodeRegister, &api.NodeRegisterRequest{Node: poisonable()})
	must(v, wire.NodeEligibility, &api.NodeEligibilityRequest{NodeID: poisonedNode, Eligibility: api.NodeSchedulingEligible})
	for _, name := range []string{"kept", "n"} {
		must(v, wire.NamespaceUpsert, &api.NamespaceUpsertRequest{Spec: &api.Namespace{Name: name}})
		must(v, wire.NodePoolUpsert, &api.NodePoolUpsertRequest{Spec: &api.NodePool{Name: name}})
	}
	must(v, wire.VolumeRegister, &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{aVolume()}, WriteRequest: api.WriteRequest{Namespace: api.DefaultNamespace}})
	must(v, wire.JobRegister, &api.JobRegisterRequest{Job: job("kept")})
	must(v, wire.JobRegister, &api.JobRegisterRequest{Job: job("placed")})
	var found *api.AllocStub
	until(v.t, "an allocation", func() bool {
		for _, a := range must(v, wire.JobAllocations, &api.JobRequest{JobID: "placed"}).Allocs {
			if a.DesiredStatus == api.AllocDesiredStatusRun {
				found = a
			}
		}
		return found != nil
	})
	return found
}

// readable asks the HTTP API for every list: one bad record must not take its list along.
func (v *stocked) readable(after string) {
	v.t.Helper()
	for _, path := range []string{
		"/v1/jobs?meta=true&namespace=*", "/v1/nodes?resources=true&os=true", "/v1/node/" + poisonedNode, "/v1/allocations?resources=true&task_states=true&namespace=*",
		"/v1/evaluations?namespace=*", "/v1/deployments?namespace=*", "/v1/volumes?type=csi&namespace=*", "/v1/plugins?type=csi", "/v1/plugin/csi/p", "/v1/namespaces",
		"/v1/node/pools", "/v1/scaling/policies?namespace=*", "/v1/job/placed", "/v1/job/placed/versions?diffs=true", "/v1/job/placed/summary", "/v1/job/placed/scale",
		"/v1/job/kept", "/v1/operator/scheduler/configuration", "/v1/operator/autopilot/configuration", "/v1/operator/raft/configuration", "/v1/namespace/kept", "/v1/node/pool/kept",
		"/v1/volumes/attachments?namespace=*", "/v1/node/" + poisonedNode + "/allocations", "/v1/job/placed/allocations?all=true", "/v1/job/placed/deployments",
	} {
		if code, body := v.get(path); code != http.StatusOK {
			v.t.Errorf("after %s: %s answers %d: %.300s", after, path, code, body)
		}
	}
}

// get asks the HTTP API; the code is 0 when the answer is cut.
func (v *stocked) get(path string) (code int, body string) {
	w := httptest.NewRecorder()
	defer func() {
		if recover() != nil { // http.ErrAbortHandler
			code, body = 0, w.Body.String()
			body = body[max(0, len(body)-300):]
		}
	}()
	v.http.ServeHTTP(w, httptest.NewRequestWithContext(v.t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// victims are the methods in an order in which each finds what it needs.
func victims(s []wire.Handler) []wire.Handler {
	slices.SortFunc(s, func(a, b wire.Handler) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// TestEveryFieldOfEveryRequestIsPoisoned sends bad values in every field of every method's request over the network:
// all are answered or refused, none with an internal error, what was there stays readable, and all is there after a
// restart.
func TestEveryFieldOfEveryRequestIsPoisoned(t *testing.T) {
	t.Parallel()
	v := newStocked(t)
	methods := victims(v.server.Methods())
	alloc, total, took := v.settle(), 0, time.Now()
	for _, h := range methods {
		began := time.Now()
		n := v.poisoned(h, alloc)
		total += n
		if h.Scope == wire.Leader {
			alloc = v.settle()
			v.readable(h.Name)
		}
		t.Logf("%-28s %5d requests in %s", h.Name, n, time.Since(began).Round(time.Millisecond))
	}
	t.Logf("%d requests to %d methods in %s", total, len(methods), time.Since(took).Round(time.Millisecond))
	v.settle()
	if n := v.log.count("panicked"); n > 0 {
		t.Errorf("%d methods panicked", n)
	}
	v.stop()
	v.open()
	v.readable("the restart")
	v.settle()
}

// poisoned sends all bad requests to one method, some at a time.
func (v *stocked) poisoned(h wire.Handler, alloc *api.AllocStub) int {
	v.t.Helper()
	type shot struct {
		what string
		req  any
		wait time.Duration
	}
	shots, wg, total := make(chan shot), sync.WaitGroup{}, 0
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for s := range shots {
				ctx, cancel := context.WithTimeout(v.t.Context(), s.wait)
				began := time.Now()
				err := v.conn.Invoke(ctx, h.Name, s.req, h.NewReply())
				cancel()
				switch {
				case errors.Is(err, fault.Internal):
					v.t.Errorf("%s%s: %.300v", h.Name, s.what, err)
				case errors.Is(err, fault.Timeout) && s.wait > time.Second && time.Since(began) >= s.wait:
					v.t.Errorf("%s%s: no answer for %s", h.Name, s.what, time.Since(began).Round(time.Millisecond))
				}
			}
		})
	}
	for i, at := range places(reflect.TypeOf(h.New())) {
		var kind reflect.Type
		at.set(reflect.ValueOf(sane(h, alloc)), func(f reflect.Value) { kind = f.Type() })
		for k, p := range poisons(kind) {
			if (i+k)%soaktest.Rounds(50, 1) > 0 {
				continue
			}
			req := sane(h, alloc)
			at.set(reflect.ValueOf(req), p.set)
			s := shot{fmt.Sprintf("%s is %s", at.name, p.name), req, time.Minute}
			if mayWait(at.name) {
				s.wait = 100 * time.Millisecond
			}
			shots <- s
			total++
		}
	}
	close(shots)
	wg.Wait()
	return total
}
