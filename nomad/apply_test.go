package nomad_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// populated has an object of most kinds under ids that the seeds name.
func populated(tb testing.TB) *state.Store {
	tb.Helper()
	s := state.New()
	tx := s.Write(10, time.Unix(1_700_000_000, 0))
	n := aNode("n")
	tx.PutNode(n)
	j := job("j")
	j.Namespace, j.Type, j.Status, j.Version, j.Name = api.DefaultNamespace, api.JobTypeService, api.JobStatusRunning, 1, "j"
	tx.PutJob(j)
	tx.PutEval(&api.Evaluation{ID: "e", Namespace: api.DefaultNamespace, JobID: "j", Type: j.Type, Status: api.EvalStatusPending})
	tx.PutDeployment(&api.Deployment{ID: "d", Namespace: api.DefaultNamespace, JobID: "j", JobVersion: 1, Status: api.DeploymentStatusRunning, TaskGroups: map[string]*api.DeploymentState{"g": {DesiredTotal: 1}}})
	tx.PutAlloc(&api.Allocation{
		ID: "a", Namespace: api.DefaultNamespace, JobID: "j", Job: j, NodeID: "n", EvalID: "e", TaskGroup: "g", Name: "j.g[0]", DeploymentID: "d",
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning,
	})
	tx.Commit()
	return s
}

// names are the ids of populated by the fields that hold them.
var names = map[string]string{
	"NodeID": "n", "JobID": "j", "EvalID": "e", "AllocID": "a", "DeploymentID": "d", "VolumeID": "v", "PluginID": "p",
	"Namespace": api.DefaultNamespace, "TaskGroup": "g", "Allocs": "a", "Evals": "e", "Nodes": "n", "Deployments": "d", "AllocIDs": "a", "Migrate": "a",
}

// filled sets the fields of a value to what a depth of the type allows: with hollow, structs behind pointers are empty.
func filled(v reflect.Value, name string, depth int, hollow bool) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(names[name])
		if names[name] == "" {
			v.SetString("x")
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			if !hollow {
				filled(v.Elem(), name, depth-1, hollow)
			}
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			filled(v.Index(0), name, depth-1, hollow)
		}
	case reflect.Map:
		if depth > 0 && v.Type().Key().Kind() == reflect.String {
			v.Set(reflect.MakeMap(v.Type()))
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.SetString("g")
			filled(value, name, depth-1, hollow)
			if value.Kind() != reflect.Pointer || !value.IsNil() {
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("msg") != "-" {
				filled(v.Field(i), f.Name, depth, hollow)
			}
		}
	}
}

// seeds are bodies of a command: empty, hollow, filled to some depth, and with one field missing at a time.
func seeds(tb testing.TB, make func() fsm.Command) [][]byte {
	tb.Helper()
	out := [][]byte{msgp.AppendMapHeader(nil, 0)}
	add := func(c fsm.Command) {
		b, err := c.MarshalMsg(nil)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, b)
	}
	for depth := range 5 {
		for _, hollow := range []bool{true, false} {
			c := make()
			filled(reflect.ValueOf(c).Elem(), "", depth, hollow)
			add(c)
			v := reflect.ValueOf(c).Elem()
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() {
					was := reflect.New(f.Type).Elem()
					was.Set(v.Field(i))
					v.Field(i).SetZero()
					add(c)
					v.Field(i).Set(was)
				}
			}
		}
	}
	return out
}

// apply applies what could be in the log, and tells of a panic.
func apply(s *state.Store, cmd fsm.Command, body []byte) (panicked any) {
	rest, err := cmd.UnmarshalMsg(body)
	if err != nil || len(rest) > 0 || fsm.Sound(cmd) != nil {
		return nil
	}
	tx := s.Write(s.Read().Index()+1, time.Unix(1_700_000_001, 0))
	defer func() {
		panicked = recover()
		tx.Abort()
	}()
	_, _ = cmd.Apply(tx)
	return nil
}

func TestApplyPanicsOnNoCommand(t *testing.T) {
	t.Parallel()
	registry, s := nomad.Commands(), populated(t)
	kinds := registry.Kinds()
	slices.Sort(kinds)
	for _, k := range kinds {
		said := map[string]bool{}
		for _, body := range seeds(t, func() fsm.Command { return registry.New(k) }) {
			if p := apply(s, registry.New(k), body); p != nil && !said[fmt.Sprint(p)] {
				said[fmt.Sprint(p)] = true
				t.Errorf("command kind %d (%T): %v", k, registry.New(k), p)
			}
		}
	}
}

// FuzzApply applies any bytes as a command of any kind.
func FuzzApply(f *testing.F) {
	registry, s := nomad.Commands(), populated(f)
	for _, k := range registry.Kinds() {
		for _, body := range seeds(f, func() fsm.Command { return registry.New(k) }) {
			f.Add(uint16(k), body)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint16, body []byte) {
		cmd := registry.New(fsm.Kind(kind))
		if cmd == nil {
			return
		}
		if p := apply(s, cmd, body); p != nil {
			t.Errorf("command kind %d (%T): %v", kind, cmd, p)
		}
	})
}
