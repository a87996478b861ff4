package identities

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// signWait limits one call to the servers.
const signWait = 5 * time.Second

// Signer requests signed identities as one node.
type Signer struct {
	Servers wire.Caller
	NodeID  string
	// Secret returns the secret that the node proves itself with.
	Secret func() string
	Region string
}

// Sign returns the signed identities of a task, by name. All are signed, or it returns an error; see [Passing].
func (s *Signer) Sign(ctx context.Context, allocID, task string, names []string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, signWait)
	defer cancel()
	r := &api.AllocSignIdentitiesRequest{NodeID: s.NodeID, NodeSecret: s.Secret(), QueryOptions: api.QueryOptions{Region: s.Region}}
	for _, name := range names {
		r.Identities = append(r.Identities, &api.IdentityName{AllocID: allocID, Task: task, Identity: name})
	}
	resp, err := wire.AllocSignIdentities.Call(ctx, s.Servers, r)
	if err != nil {
		return nil, err
	}
	if len(resp.Signed) != len(names) {
		return nil, fault.New(fault.Internal, "the servers returned %d identities instead of %d", len(resp.Signed), len(names))
	}
	out := make(map[string]string, len(names))
	for i, signed := range resp.Signed {
		if signed == nil || signed.JWT == "" {
			reason := "the response is empty"
			if signed != nil && signed.Error != "" {
				reason = signed.Error
			}
			return nil, fault.New(fault.Denied, "identity %q is refused: %s", names[i], reason)
		}
		out[names[i]] = signed.JWT
	}
	return out, nil
}

// Passing reports whether a later call may succeed: the servers did not reply, or cannot reply now.
func Passing(err error) bool {
	switch fault.Of(err) {
	case fault.Unavailable, fault.NotLeader, fault.Timeout, fault.Exhausted:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// Shown returns the identities that the task finds in its environment or its files.
func Shown(t *api.Task) (list []*api.WorkloadIdentity) {
	if id := t.Identity; id != nil && (id.Env || id.File) {
		list = append(list, id)
	}
	for _, id := range t.Identities {
		if id.Env || id.File {
			list = append(list, id)
		}
	}
	return list
}

// Name returns the name of an identity; the one without a name is the default one.
func Name(id *api.WorkloadIdentity) string {
	if id.Name == "" {
		return api.IdentityDefaultName
	}
	return id.Name
}

// File returns the path of the file of an identity, relative to the directory of the task.
func File(id *api.WorkloadIdentity) string {
	switch {
	case id.Filepath != "":
		return path.Clean(id.Filepath)
	case Name(id) == api.IdentityDefaultName:
		return "secrets/nomad_token"
	}
	return "secrets/nomad_" + id.Name + ".jwt"
}
