package acl

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// resetFile names the file that permits another bootstrap: it has the index of the last one.
const resetFile = "acl-bootstrap-reset"

// Bootstrap creates the first management token, with a random secret or the one of the operator.
func (s *Service) Bootstrap(ctx context.Context, r *api.ACLBootstrapRequest) (*api.ACLTokenWriteResponse, error) {
	t := &api.ACLToken{
		AccessorID: uuid.NewString(), SecretID: uuid.NewString(), Name: "Bootstrap Token", Type: api.ACLManagementToken, Global: true, CreateTime: s.Now().UTC(),
	}
	if r.BootstrapSecret != "" {
		if uuid.Validate(r.BootstrapSecret) != nil || len(r.BootstrapSecret) != len(t.SecretID) {
			return nil, fault.New(fault.Invalid, "invalid acl token")
		}
		t.SecretID = r.BootstrapSecret
	}
	t.Hash = hashToken(t)
	reset := s.resetIndex()
	if err := bootstrapped(s.State.Read(), reset); err != nil {
		return nil, err // everyone may ask; no entry of the log is spent on it
	}
	sealed, err := s.Secrets.SealToken(ctx, t)
	if err != nil {
		return nil, err
	}
	out, err := s.proposeToken(ctx, &Bootstrap{Token: sealed, ResetIndex: reset})
	if err == nil && reset > 0 {
		if err := os.Remove(filepath.Join(s.Dir, resetFile)); err != nil {
			s.Log.Warn("the file that permits another bootstrap stays; it has no effect any more", "error", err)
		}
	}
	return out, err
}

// resetIndex reads the index of the bootstrap that an operator permits to repeat; 0 is none.
func (s *Service) resetIndex() uint64 {
	if s.Dir == "" {
		return 0
	}
	path := filepath.Join(s.Dir, resetFile)
	body, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return 0
	}
	index := uint64(0)
	if err == nil {
		index, err = strconv.ParseUint(strings.TrimSpace(string(body)), 10, 64)
	}
	if err != nil {
		s.Log.Warn("the file does not permit another bootstrap: write the reset index into it", "file", path, "error", err)
	}
	return index
}
