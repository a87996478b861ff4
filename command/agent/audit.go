package agent

import (
	"cmp"
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/command/agent/logfile"
	"github.com/open-nomad/open-nomad/nomad/httpapi/audit"
)

// auditLog is the files of the audit log; none where it is off.
type auditLog struct {
	files []auditFile
	log   hclog.Logger
}

type auditFile struct {
	config.AuditFile
	*logfile.File
}

// openAudit opens the files of the audit log. One with enforced delivery that cannot be opened ends the start, because no
// request would be served; others are tried again by each event.
func openAudit(c config.Audit, dataDir string, log hclog.Logger) (*auditLog, error) {
	a := &auditLog{log: log}
	for _, f := range c.Files(dataDir) {
		a.files = append(a.files, auditFile{f, logfile.New(logfile.Config{
			Path: f.Path, Mode: f.Mode, BytesMax: f.RotateBytes, AgeMax: f.RotateDuration, ArchivesMax: f.RotateMaxFiles,
		})})
	}
	return a, a.reopen()
}

// reopen opens the files by their names again. After an error the old ones stay.
func (a *auditLog) reopen() error {
	var errs []error
	for _, f := range a.files {
		err := os.MkdirAll(filepath.Dir(f.Path), secretMode)
		if err == nil {
			err = f.Reopen()
		}
		switch {
		case err == nil:
		case f.Enforced:
			errs = append(errs, fault.New(fault.Invalid, "audit.sink %q: %w", f.Name, err))
		default:
			a.log.Warn("audit log: events are lost until the file can be opened", "sink", f.Name, "error", err)
		}
	}
	return errors.Join(errs...)
}

func (a *auditLog) close() {
	for _, f := range a.files {
		if err := f.Close(); err != nil {
			a.log.Error("audit log: close the file", "sink", f.Name, "error", err)
		}
	}
}

// auditConfig translates the configuration for the HTTP server.
func (a *agent) auditConfig() audit.Config {
	c := audit.Config{Address: a.http.Addr().String()}
	if host := cmp.Or(a.cfg.Advertise.HTTP, a.cfg.Addresses.HTTP); host != "" {
		c.Address = host
		if _, port, err := net.SplitHostPort(a.http.Addr().String()); err == nil && net.ParseIP(host) != nil {
			c.Address = net.JoinHostPort(host, port)
		}
	}
	for _, f := range a.audit.files {
		c.Sinks = append(c.Sinks, &audit.Sink{Name: f.Name, Output: f.File, Enforced: f.Enforced})
	}
	for _, f := range a.cfg.Audit.Filters {
		c.Filters = append(c.Filters, audit.Filter{Endpoints: f.Endpoints, Stages: f.Stages, Operations: f.Operations})
	}
	return c
}
