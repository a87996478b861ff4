package nomad_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad"
)

func aNode(id string) *api.Node {
	return &api.Node{
		ID: id, SecretID: "x", Name: "n", Datacenter: "dc1", Status: api.NodeStatusReady, HTTPAddr: "127.0.0.1:4646",
		Attributes: map[string]string{"kernel.name": "linux", "driver.raw_exec": "1"},
		Drivers:    map[string]*api.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
		NodeResources: &api.NodeResources{
			Cpu: api.NodeCpuResources{CpuShares: 64_000_000}, Memory: api.NodeMemoryResources{MemoryMB: 64_000_000}, Disk: api.NodeDiskResources{DiskMB: 64_000_000},
		},
	}
}

// What the leader wrote and nobody can read would end every server, now and at each start.
func TestNoRequestEndsAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := start(t, dir)
	far, err := wire.Connect(s.Address(), s.Dialer())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	many := func(n int) []string { return strings.Split(strings.Repeat("x,", n)+"x", ",") }
	for what, c := range map[string]struct {
		names  string
		change func(*api.Job)
	}{
		"a million datacenters":      {"Job.Datacenters", func(j *api.Job) { j.Datacenters = many(1_000_000) }},
		"a null scaling policy":      {"ScalingPolicies[0]", func(j *api.Job) { j.TaskGroups[0].Tasks[0].ScalingPolicies = []*api.ScalingPolicy{nil} }},
		"a null task":                {"Tasks[0]", func(j *api.Job) { j.TaskGroups[0].Tasks[0] = nil }},
		"a null volume":              {`Volumes["v"]`, func(j *api.Job) { j.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{"v": nil} }},
		"a million words of a task":  {"Env", func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = mapOf(many(1_000_000)) }},
		"a million words of the job": {"Meta", func(j *api.Job) { j.Meta = mapOf(many(1_000_000)) }},
	} {
		for from, caller := range map[string]wire.Caller{"this process": s.Caller(), "the network": far} {
			j := job("poison")
			c.change(j)
			_, err := wire.JobRegister.Call(t.Context(), caller, &api.JobRegisterRequest{Job: j})
			tooMuch := from == "the network" && strings.Contains(what, "million") // the decoder refuses it by its own words
			if !errors.Is(err, fault.Invalid) || !tooMuch && !strings.Contains(err.Error(), c.names) {
				t.Errorf("%s from %s: %.200v", what, from, err)
			}
		}
	}
	n := aNode("11111111-0000-0000-0000-000000000000")
	n.StaleMounts = []*api.StaleMount{nil}
	if _, err := wire.NodeRegister.Call(t.Context(), far, &api.NodeRegisterRequest{Node: n}); !errors.Is(err, fault.Invalid) {
		t.Errorf("a null of a node: %v", err)
	}
	for _, round := range []string{"now", "after a restart"} {
		if err := register(t.Context(), s, "good"); err != nil {
			t.Errorf("%s: %v", round, err)
		}
		stop()
		s, stop = start(t, dir)
	}
}

func mapOf(words []string) map[string]string {
	m := map[string]string{}
	for i := range words {
		m[words[i]+string(rune(0x4e00+i%20000))+string(rune(0x4e00+i/20000))] = "v"
	}
	return m
}

// spot is a place of a type where a list or map may have a null, or a pointer an empty object.
type spot struct {
	path []string
	null bool
}

func (s spot) String() string {
	if s.null {
		return strings.Join(s.path, ".") + " null"
	}
	return strings.Join(s.path, ".") + " empty"
}

func spots(t reflect.Type, path []string, depth int) (out []spot) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || depth == 0 || t == reflect.TypeFor[time.Time]() {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Tag.Get("msg") == "-" {
			continue
		}
		p := append(append([]string(nil), path...), f.Name)
		deep := func(inner reflect.Type) { out = append(append(out, spot{path: p}), spots(inner, p, depth-1)...) }
		switch f.Type.Kind() {
		case reflect.Slice, reflect.Map:
			e := f.Type.Elem()
			if e.Kind() == reflect.Pointer {
				out = append(out, spot{p, true})
				e = e.Elem()
			}
			if e.Kind() == reflect.Struct {
				deep(e)
			}
		case reflect.Pointer:
			if f.Type.Elem().Kind() == reflect.Struct {
				deep(f.Type.Elem())
			}
		case reflect.Struct:
			out = append(out, spots(f.Type, p, depth-1)...)
		}
	}
	return out
}

// put sets the spot in a value; it reports false for places that cannot be reached.
func (s spot) put(v reflect.Value) bool {
	for i, name := range s.path {
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.FieldByName(name)
		last := i == len(s.path)-1
		if k := v.Kind(); k == reflect.Slice || k == reflect.Map {
			elem := reflect.New(v.Type().Elem()).Elem()
			if !(last && s.null) && elem.Kind() == reflect.Pointer {
				elem.Set(reflect.New(elem.Type().Elem()))
			}
			if k == reflect.Map {
				if v.Type().Key().Kind() != reflect.String || !last && elem.Kind() != reflect.Pointer {
					return false
				}
				if v.IsNil() {
					v.Set(reflect.MakeMap(v.Type()))
				}
				v.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), elem)
				v = elem
				continue
			}
			if v.Len() == 0 || last && s.null {
				v.Set(reflect.Append(v, elem))
			}
			v = v.Index(v.Len() - 1)
		} else if k == reflect.Pointer && v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
	}
	return true
}

// judge refuses an answer that is no clean one.
func judge(t *testing.T, sp spot, err error) {
	t.Helper()
	if sp.null && !errors.Is(err, fault.Invalid) || errors.Is(err, fault.Internal) {
		t.Errorf("%s: %.300v", sp, err)
	}
}

func TestNullAndEmptyObjectsOfJobsAndNodesAreAnswered(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, _ := start(t, "")
	if _, err := wire.NodeRegister.Call(ctx, s.Caller(), &api.NodeRegisterRequest{Node: aNode("11111111-0000-0000-0000-000000000000")}); err != nil {
		t.Fatal(err)
	}
	for _, sp := range spots(reflect.TypeFor[api.Job](), nil, 5) {
		for _, kind := range []string{api.JobTypeService, api.JobTypeSystem} {
			j := job("j" + strings.Join(sp.path, "."))
			j.Type = kind
			if !sp.put(reflect.ValueOf(j)) {
				continue
			}
			_, err := wire.JobRegister.Call(ctx, s.Caller(), &api.JobRegisterRequest{Job: j})
			judge(t, sp, err)
			_, err = wire.JobPlan.Call(ctx, s.Caller(), &api.JobPlanRequest{Job: j, Diff: true})
			judge(t, sp, err)
			_, err = wire.JobValidate.Call(ctx, s.Caller(), &api.JobValidateRequest{Job: j})
			judge(t, sp, err)
		}
	}
	for i, sp := range spots(reflect.TypeFor[api.Node](), nil, 5) {
		n := aNode(strings.Replace("00000000-0000-0000-0000-000000000000", "0000", string(rune('a'+i/26%26))+string(rune('a'+i%26))+"00", 1))
		if !sp.put(reflect.ValueOf(n)) {
			continue
		}
		for range 2 { // the second one is compared with the first
			_, err := wire.NodeRegister.Call(ctx, s.Caller(), &api.NodeRegisterRequest{Node: n})
			judge(t, sp, err)
			n.Attributes = map[string]string{"kernel.name": "linux2"}
		}
		_, err := wire.NodeList.Call(ctx, s.Caller(), &api.NodeListRequest{Resources: true, OS: true})
		judge(t, spot{path: sp.path}, err)
	}
	settled(t, s)
}

// settled waits until no evaluation is pending, and refuses those that failed.
func settled(t *testing.T, s *nomad.Server) {
	t.Helper()
	until(t, "no evaluation is pending", func() bool {
		got, err := wire.EvalList.Call(context.Background(), s.Caller(), &api.EvalListRequest{QueryOptions: api.QueryOptions{Namespace: "*"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got.Evaluations {
			if e.Status == api.EvalStatusPending {
				return false
			}
			if e.Status == api.EvalStatusFailed {
				t.Errorf("evaluation of %s failed: %s", e.JobID, e.StatusDescription)
			}
		}
		return true
	})
}

func TestNullAndEmptyObjectsOfReportsAreAnswered(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, _ := start(t, "")
	if _, err := wire.NodeRegister.Call(ctx, s.Caller(), &api.NodeRegisterRequest{Node: aNode("11111111-0000-0000-0000-000000000000")}); err != nil {
		t.Fatal(err)
	}
	j := job("placed")
	j.TaskGroups[0].Count = 10
	if _, err := wire.JobRegister.Call(ctx, s.Caller(), &api.JobRegisterRequest{Job: j}); err != nil {
		t.Fatal(err)
	}
	settled(t, s)
	list, err := wire.JobAllocations.Call(ctx, s.Caller(), &api.JobRequest{JobID: "placed"})
	if err != nil || len(list.Allocs) == 0 {
		t.Fatal("nothing placed", err)
	}
	for i, sp := range spots(reflect.TypeFor[api.Allocation](), nil, 4) {
		stub := list.Allocs[i%len(list.Allocs)]
		a := &api.Allocation{ID: stub.ID, ClientStatus: api.AllocClientStatusRunning}
		if !sp.put(reflect.ValueOf(a)) {
			continue
		}
		_, err := wire.NodeUpdateAllocs.Call(ctx, s.Caller(), &api.AllocUpdateRequest{NodeID: stub.NodeID, NodeSecret: "x", Allocs: []*api.Allocation{a}})
		judge(t, sp, err)
		_, err = wire.JobAllocations.Call(ctx, s.Caller(), &api.JobRequest{JobID: "placed"})
		judge(t, spot{path: sp.path}, err)
	}
}
