package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Bounds of waiting for the deployment of a job that went back to an older version.
const (
	revertLooks = 10
	revertPause = 500 * time.Millisecond
)

// Deployment follows a deployment to its end, and the one that takes a failed version back.
func Deployment(ctx context.Context, s *session.Session, id string) error {
	return DeploymentEvery(ctx, s, id, lookAgain)
}

// DeploymentEvery is Deployment with the longest time between two looks.
func DeploymentEvery(ctx context.Context, s *session.Session, id string, wait time.Duration) error {
	s.Printf("==> %s: Monitoring deployment %q\n", view.Time(time.Now()), s.ID(id))
	reported := progress{live: s.Live("Deployment " + s.ID(id))}
	defer reported.live.End()
	var index uint64
	for {
		d, meta, err := s.Deployment(ctx, id, rest.Query{Index: index, Wait: wait})
		if err != nil {
			return session.Failed("reading deployment", err)
		}
		index = meta.Index
		reported.report(s, d)
		switch d.Status {
		case api.DeploymentStatusSuccessful:
			reported.live.End()
			return ended(ctx, s, d)
		case api.DeploymentStatusFailed, api.DeploymentStatusCancelled, api.DeploymentStatusBlocked:
			reported.live.End()
			if err := ended(ctx, s, d); err != nil {
				return err
			}
			if d.Status == api.DeploymentStatusFailed {
				takenBack(ctx, s, d, wait)
			}
			return &session.Exit{Code: 1, Text: fmt.Sprintf("Deployment %q is %s: %s", s.ID(id), view.Inline(d.Status), view.Inline(d.StatusDescription))}
		}
	}
}

// progress is the part of a deployment that was printed last, and where it is drawn in place.
type progress struct {
	status, groups string
	live           *session.Live
}

// report draws a deployment in place on a terminal. Elsewhere it prints it whole when its status is new, and its groups
// when only they changed.
func (p *progress) report(s *session.Session, d *api.Deployment) {
	before := *p
	p.status, p.groups = d.Status+" "+d.StatusDescription, rows.Deployed(d)
	switch {
	case *p != before && p.live.Block("\n"+view.Time(time.Now())+"\n"+rows.Deployment(d, s.Verbose)+waitingFor(s, d)):
		return
	case p.status != before.status:
		s.Titled(view.Time(time.Now()), rows.Deployment(d, s.Verbose))
	case p.groups != before.groups:
		s.Titled(view.Time(time.Now()), p.groups)
	default:
		return
	}
	s.Print(waitingFor(s, d))
}

// waitingFor is the command that a waiting deployment needs from an operator.
func waitingFor(s *session.Session, d *api.Deployment) string {
	switch {
	case d.Status == api.DeploymentStatusPaused:
		return "\nThe deployment is paused: nomad deployment resume " + view.Inline(s.ID(d.ID)) + "\n"
	case d.Status == api.DeploymentStatusRunning && awaitsPromotion(d):
		return "\nAll canaries are healthy: nomad deployment promote " + view.Inline(s.ID(d.ID)) + "\n"
	}
	return ""
}

func awaitsPromotion(d *api.Deployment) bool {
	waits := false
	for _, g := range d.TaskGroups {
		if g.DesiredCanaries == 0 || g.Promoted {
			continue
		}
		if g.HealthyAllocs < g.DesiredCanaries {
			return false
		}
		waits = waits || !g.AutoPromote
	}
	return waits
}

// ended shows the allocations of a deployment to who wants to see more.
func ended(ctx context.Context, s *session.Session, d *api.Deployment) error {
	if !s.Verbose {
		return nil
	}
	allocs, _, err := s.DeploymentAllocations(ctx, d.ID, rest.Query{})
	if err != nil {
		return session.Failed("reading allocations of the deployment", err)
	}
	s.Titled("Allocations", rows.Allocs(allocs, true, time.Now()))
	return nil
}

// takenBack follows the deployment of the older version that a job reverts to, if its groups have auto_revert.
func takenBack(ctx context.Context, s *session.Session, failed *api.Deployment, wait time.Duration) {
	reverts := false
	for _, g := range failed.TaskGroups {
		reverts = reverts || g.AutoRevert
	}
	if !reverts {
		return
	}
	for range revertLooks {
		d, err := s.JobDeployment(ctx, failed.JobID)
		if err == nil && d != nil && d.ID != failed.ID && d.CreateIndex > failed.CreateIndex {
			s.Printf("\n==> %s: The job was reverted: deployed as version %d\n", view.Time(time.Now()), d.JobVersion)
			if err := DeploymentEvery(ctx, s, d.ID, wait); err != nil {
				s.Warnf("%s", err)
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(revertPause):
		}
	}
}
