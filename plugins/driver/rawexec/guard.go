package rawexec

import (
	"context"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Guard starts a supervising process that keeps a lease for the processes of Lease.Container, which it does not start. All
// other methods take it as the task of that id, which runs until it is stopped, or until the lease ends.
func (d *Driver) Guard(ctx context.Context, id, allocID string, l *driver.Lease) error {
	program, err := d.program()
	if err != nil {
		return err
	}
	_, err = d.Start(ctx, &driver.Task{
		ID: id, AllocID: allocID, Name: "lease", Dir: "/", Lease: l, Logs: driver.Logs{Disabled: true},
		Config: map[string]any{"command": program}, Env: map[string]string{frame.IdleKey: "1"},
	})
	return err
}
