package volume

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// showClaims prints who holds the volume, in which state, since when, and what is tried next.
func showClaims(s *session.Session, v *api.VolumeDetail) {
	if len(v.Claims) == 0 {
		return
	}
	now := time.Now()
	var errs []session.Reason
	table := [][]string{{"Alloc ID", "Node ID", "Job ID", "Mode", "State", "Since", "Next Retry", "Last Error"}}
	for _, c := range v.Claims {
		state := string(c.State)
		if c.State == api.ClaimWaiting && c.Predecessor != "" {
			state += " for " + s.ID(c.Predecessor)
		}
		table = append(table, []string{
			s.ID(c.AllocID), s.ID(c.NodeID), c.JobID, string(c.Mode), state,
			s.When(c.Since), retry(c.NextRetry, now), view.OrNone(c.LastError),
		})
		errs = append(errs, session.Reason{Of: "the claim of allocation " + c.AllocID, Text: c.LastError})
	}
	s.Section("Claims", table...)
	s.Reasons(errs)
}

// showAttachments prints which nodes the storage provider has attached the volume to.
func showAttachments(s *session.Session, v *api.VolumeDetail) {
	if len(v.Attachments) == 0 {
		return
	}
	now := time.Now()
	var errs []session.Reason
	table := [][]string{{"Node ID", "State", "Since", "Next Retry", "Last Error"}}
	for _, a := range v.Attachments {
		table = append(table, []string{s.ID(a.NodeID), string(a.State), s.When(a.Since), retry(a.NextRetry, now), view.OrNone(a.LastError)})
		errs = append(errs, session.Reason{Of: "the attachment to node " + a.NodeID, Text: a.LastError})
	}
	s.Section("Attachments", table...)
	s.Reasons(errs)
}

// showReleases prints how the last claims ended and why it was safe to release the volume.
func showReleases(s *session.Session, v *api.VolumeDetail) {
	if len(v.Releases) == 0 {
		return
	}
	table := [][]string{{"Alloc ID", "Node ID", "Proof", "By", "At", "Reason"}}
	for _, r := range slices.Backward(v.Releases) {
		table = append(table, []string{view.OrNone(s.ID(r.AllocID)), s.ID(r.NodeID), r.Proof, r.By, s.When(r.At), view.OrNone(r.Reason)})
	}
	s.Section("Releases", table...)
}

func retry(at int64, now time.Time) string {
	if at == 0 {
		return "<none>"
	}
	return view.Until(at, now)
}
