package state_test

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// A walk shows what a sort of the whole table would, from any token on, whether or not its row is there.
func TestSpansAreWhatSortedTablesHave(t *testing.T) {
	spaces, ids := []string{"a", "a-b", "b", "c0"}, []string{"1", "11", "12", "2", "2.x", "3"}
	rapid.Check(t, func(t *rapid.T) {
		s := state.New()
		for i := range rapid.IntRange(0, 60).Draw(t, "writes") {
			tx := s.Write(uint64(i/3+2), time.Now())
			ns, id := rapid.SampledFrom(spaces).Draw(t, "ns"), rapid.SampledFrom(ids).Draw(t, "id")
			if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
				tx.DeleteJob(ns, id)
				tx.DeleteVolume(ns, id)
				tx.DeleteAlloc(ns + id)
				tx.DeleteDeployment(ns + id)
				tx.DeleteNode(ns + id)
			} else {
				tx.PutJob(&api.Job{Namespace: ns, ID: id})
				tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{Namespace: ns, ID: id}})
				tx.PutAlloc(&api.Allocation{ID: ns + id, Namespace: ns})
				tx.PutDeployment(&api.Deployment{ID: ns + id, Namespace: ns})
				tx.PutNode(&api.Node{ID: ns + id})
			}
			tx.Commit()
		}
		span := state.Span{
			Namespace: rapid.SampledFrom(append(spaces, api.AllNamespaces)).Draw(t, "namespace"),
			Prefix:    rapid.SampledFrom([]string{"", "", "1", "a", "a-"}).Draw(t, "prefix"), Reverse: rapid.Bool().Draw(t, "reverse"),
		}
		hidden := rapid.SampledFrom(append(spaces, "")).Draw(t, "hidden")
		span.Visible = func(ns string) bool { return ns != hidden }
		shown := func(ns, id string) bool {
			return ns != hidden && (span.Namespace == api.AllNamespaces || ns == span.Namespace) && strings.HasPrefix(id, span.Prefix)
		}
		ns, id := rapid.SampledFrom(spaces).Draw(t, "token ns"), rapid.SampledFrom(ids).Draw(t, "token id")
		path, age := state.PathToken(ns, id), state.AgeToken(rapid.Uint64Range(1, 22).Draw(t, "token age"), ns+id)
		if rapid.Bool().Draw(t, "whole") {
			path, age = "", ""
		}
		from := func(token string) state.Span {
			at := span
			at.From = token
			return at
		}
		tx := s.Read()
		order := func(a, b []string) int { return slices.Compare(a, b) }
		byAge := func(index uint64, id string) []string { return []string{fmt.Sprintf("%020d", index), id} }
		tokens := map[string]func() (got, want [][]string){
			"jobs": func() (got, want [][]string) {
				at := func(j *api.Job) []string { return []string{j.Namespace, j.ID} }
				return walked(tx.JobSpan(from(path)), at), cut(walked(tx.Jobs(api.AllNamespaces), at), func(k []string) bool { return shown(k[0], k[1]) }, order, path, []string{ns, id}, span.Reverse)
			},
			"volumes": func() (got, want [][]string) {
				at := func(v *api.Volume) []string { return []string{v.Namespace, v.ID} }
				return walked(tx.VolumeSpan(from(path)), at), cut(walked(tx.Volumes(api.AllNamespaces), at), func(k []string) bool { return shown(k[0], k[1]) }, order, path, []string{ns, id}, span.Reverse)
			},
			"allocs": func() (got, want [][]string) {
				at := func(a *api.Allocation) []string { return byAge(a.CreateIndex, a.ID) }
				keep := func(k []string) bool { return shown(tx.Alloc(k[1]).Namespace, k[1]) }
				return walked(tx.AllocSpan(from(age)), at), cut(walked(tx.Allocs(api.AllNamespaces), at), keep, order, age, strings.SplitN(age, ".", 2), span.Reverse)
			},
			"deployments": func() (got, want [][]string) {
				at := func(d *api.Deployment) []string { return byAge(d.CreateIndex, d.ID) }
				keep := func(k []string) bool { return shown(tx.Deployment(k[1]).Namespace, k[1]) }
				return walked(tx.DeploymentSpan(from(age)), at), cut(walked(tx.Deployments(api.AllNamespaces), at), keep, order, age, strings.SplitN(age, ".", 2), span.Reverse)
			},
			"nodes": func() (got, want [][]string) {
				at := func(n *api.Node) []string { return []string{n.ID} }
				keep := func(k []string) bool { return strings.HasPrefix(k[0], span.Prefix) }
				return walked(tx.NodeSpan(from(path)), at), cut(walked(tx.Nodes(), at), keep, order, path, []string{path}, span.Reverse)
			},
		}
		for list, of := range tokens {
			if got, want := of(); !slices.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("%s of %+v: got %v, want %v", list, span, got, want)
			}
		}
	})
}

func walked[T any](rows iter.Seq[T], key func(T) []string) (keys [][]string) {
	for r := range rows {
		keys = append(keys, key(r))
	}
	return keys
}

// cut are the keys that a list shows, sorted, from the token on.
func cut(keys [][]string, keep func([]string) bool, order func(a, b []string) int, token string, from []string, reverse bool) [][]string {
	keys = slices.DeleteFunc(keys, func(k []string) bool {
		return !keep(k) || token != "" && cmp.Compare(order(k, from), 0) == map[bool]int{true: 1, false: -1}[reverse]
	})
	slices.SortFunc(keys, order)
	if reverse {
		slices.Reverse(keys)
	}
	return keys
}
