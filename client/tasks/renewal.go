package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/identities"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// changeSignal is the signal of identities that name none.
const changeSignal = "SIGHUP"

// renewals returns the renewals of the present attempt. An attempt of an earlier agent process is renewed as if nothing had
// been renewed since its start.
func (t *task) renewals(spec *api.Task) *identities.Renewals {
	t.mu.Lock()
	defer t.mu.Unlock()
	return identities.RenewalsOf(spec, t.rec.State.StartedAt)
}

// renewIdentities renews the identities of a running attempt until ctx ends. When the servers do not reply, it tries again.
func (t *task) renewIdentities(ctx context.Context, d driver.Driver, id string, r *identities.Renewals) {
	pauses := retry.Between(signPauseMin, signPauseMax)
	for retry.Sleep(ctx, r.Wait(time.Now(), t.g.conf.Jitter)) {
		now := time.Now()
		due := r.Due(now)
		if len(due) == 0 {
			continue
		}
		if err := t.signAgain(ctx, due); err != nil {
			pause := pauses.Next()
			if ctx.Err() == nil {
				t.g.conf.Log.Warn("renew identities", "task", t.name, "identities", namesOf(due), "retry_in", pause, "error", err)
			}
			retry.Sleep(ctx, pause)
			continue
		}
		pauses.Reset()
		r.Renewed(now)
		t.notifyRenewed(ctx, d, id, due)
	}
}

func (t *task) signAgain(ctx context.Context, due []*api.WorkloadIdentity) error {
	signed, err := t.g.conf.Identities.Sign(ctx, t.g.conf.Alloc.ID, t.name, namesOf(due))
	if err != nil {
		return err
	}
	return writeIdentities(t.g.conf.Dirs.Task(t.name).Dir(), due, signed)
}

// notifyRenewed restarts the task or sends it signals, as its identities ask for. A restart signs again.
func (t *task) notifyRenewed(ctx context.Context, d driver.Driver, id string, renewed []*api.WorkloadIdentity) {
	bySignal := map[string][]*api.WorkloadIdentity{}
	for _, i := range renewed {
		switch i.ChangeMode {
		case identities.ChangeRestart:
			t.askOnce(restartRequest{reason: renewedText(renewed)})
			return
		case identities.ChangeSignal:
			signal := i.ChangeSignal
			if signal == "" {
				signal = changeSignal
			}
			bySignal[signal] = append(bySignal[signal], i)
		}
	}
	for signal, list := range bySignal {
		t.emit(signaling(signal, renewedText(list)))
		if err := d.Signal(ctx, id, signal); err != nil && ctx.Err() == nil {
			t.g.conf.Log.Warn("send signal after the renewal of identities", "task", t.name, "signal", signal, "error", err)
			t.emit(message(api.EventSignaling, fmt.Sprintf("The task did not receive signal %s: %v", signal, err)))
		}
	}
}

func renewedText(list []*api.WorkloadIdentity) string {
	names := namesOf(list)
	slices.Sort(names)
	return "Renewed identity " + strings.Join(names, ", ")
}
