package evals_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/evals"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// limit gives the namespace default a quota of so many MHz.
func (w *world) limit(cpu int) {
	w.write(func(tx *state.Txn) {
		tx.PutQuota(&api.QuotaSpec{Name: "q", Limits: []*api.QuotaLimit{{Region: "global", RegionLimit: &api.QuotaResources{CPU: &cpu}}}})
		tx.PutNamespace(&api.Namespace{Name: "default", Quota: "q"})
	})
}

// overQuota has job a use the quota of 600 MHz, and b wait for it. The nodes have enough for both.
func (w *world) overQuota() {
	w.t.Helper()
	w.node("n1")
	w.node("n2")
	w.limit(600)
	w.register(evalID(1), service("a", 400))
	w.untilLive("a", 1)
	w.register(evalID(2), service("b", 400))
	e := w.untilEval(evalID(2), api.EvalStatusComplete)
	if m := e.FailedTGAllocs["g"]; m == nil || len(m.QuotaExhausted) != 1 {
		w.t.Fatalf("failed %+v", e.FailedTGAllocs)
	}
	b := w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
	if b.QuotaLimitReached != "q" || !strings.HasPrefix(b.StatusDescription, "quota limit hit: q: cpu") {
		w.t.Fatalf("blocked evaluation %+v", b)
	}
}

func TestQuotaWakes(t *testing.T) {
	for name, frees := range map[string]func(w *world){
		"an allocation ends":   func(w *world) { w.change("a", ends) },
		"the quota is raised":  func(w *world) { w.limit(800) },
		"the quota is removed": func(w *world) { w.write(func(tx *state.Txn) { tx.PutNamespace(&api.Namespace{Name: "default"}) }) },
		"an allocation is deleted": func(w *world) {
			w.write(func(tx *state.Txn) {
				for _, a := range w.live("a") {
					tx.DeleteAlloc(a.ID)
				}
				stopped := *tx.Job("default", "a")
				stopped.Stop = true
				tx.PutJob(&stopped)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.overQuota()
			frees(w)
			w.untilLive("b", 1)
		})
	}
}

func TestQuotaFreedBetweenTermsWakes(t *testing.T) {
	w := newWorld(t)
	w.overQuota()
	w.stop()
	w.change("a", ends)
	w.lead(evals.Config{})
	w.untilLive("b", 1)
}
