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

// Deployment follows a deployment to its end.
func Deployment(ctx context.Context, s *session.Session, id string) error {
	s.Printf("==> %s: Monitoring deployment %q\n", view.Time(time.Now()), s.ID(id))
	told := ""
	var index uint64
	for {
		d, meta, err := s.Deployment(ctx, id, rest.Query{Index: index, Wait: lookAgain})
		if err != nil {
			return session.Failed("reading deployment", err)
		}
		index = meta.Index
		if text := rows.Deployment(d, s.Verbose); text != told {
			told = text
			s.Printf("\n%s\n%s", view.Time(time.Now()), text)
		}
		switch d.Status {
		case api.DeploymentStatusSuccessful:
			return nil
		case api.DeploymentStatusFailed, api.DeploymentStatusCancelled, api.DeploymentStatusBlocked:
			return &session.Exit{Code: 1, Text: fmt.Sprintf("Deployment %q is %s: %s", s.ID(id), d.Status, d.StatusDescription)}
		}
	}
}
