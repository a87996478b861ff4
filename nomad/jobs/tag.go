package jobs

import (
	"cmp"
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Bounds of the parts of a tag.
const (
	tagNameMax        = 128
	tagDescriptionMax = 1024
	// taggedMax is how many versions of a job have tags: they are kept indefinitely.
	taggedMax = 100
)

// Apply names the version, or takes its name away.
func (c *Tag) Apply(tx *state.Txn) (any, error) {
	j := tx.Job(c.Namespace, c.JobID)
	if j == nil {
		return nil, ledger.Missing(c.Namespace, c.JobID)
	}
	named := tagged(tx, j, c.Name)
	if c.Unset {
		if named == nil {
			return nil, fault.New(fault.NotFound, "job %q has no version with the tag %q", c.JobID, c.Name)
		}
		ledger.Change(tx, named, func(j *api.Job) { j.VersionTag = nil })
		ledger.Prune(tx, j, c.Versions)
		return &api.JobVersionTag{}, nil
	}
	number := c.Version
	if c.Latest {
		number = j.Version
	}
	v := tx.JobVersion(c.Namespace, c.JobID, number)
	if v == nil {
		return nil, ledger.MissingVersion(c.Namespace, c.JobID, number)
	}
	if named != nil && named.Version != number {
		return nil, fault.New(fault.Invalid, "tag %q already exists on version %d of job %q", c.Name, named.Version, c.JobID)
	}
	tag := &api.JobVersionTag{Name: c.Name, Description: c.Description, TaggedTime: tx.Now().UnixNano()}
	ledger.Change(tx, v, func(j *api.Job) { j.VersionTag = tag })
	return tag, nil
}

// tagged is the version of a job with that tag, or nil.
func tagged(tx *state.Txn, j *api.Job, name string) *api.Job {
	for _, v := range tx.JobVersions(j.Namespace, j.ID) {
		if v.VersionTag != nil && v.VersionTag.Name == name {
			return v
		}
	}
	return nil
}

// mayTag refuses one tagged version too many. It asks before the write: a few more by several writes at once do no harm.
func (s *Service) mayTag(r *api.JobTagRequest) error {
	if r.Unset {
		return nil
	}
	n := 0
	for _, v := range s.State.Read().JobVersions(namespace(r.Namespace), r.JobID) {
		if v.VersionTag != nil && v.VersionTag.Name != r.Name {
			n++
		}
	}
	if n >= taggedMax {
		return fault.New(fault.Invalid, "job %q has %d versions with tags, and more are not kept: take one away with job tag unset", r.JobID, n)
	}
	return nil
}

// Tag names a version of a job, or takes the name away.
func (s *Service) Tag(ctx context.Context, r *api.JobTagRequest) (*api.JobTagResponse, error) {
	switch {
	case r.JobID == "":
		return nil, fault.New(fault.Invalid, "JobID must be specified")
	case r.Name == "":
		return nil, fault.New(fault.Invalid, "a version tag needs a name")
	case len(r.Name) > tagNameMax || len(r.Description) > tagDescriptionMax:
		return nil, fault.New(fault.Invalid, "a tag's name has at most %d bytes, its description %d", tagNameMax, tagDescriptionMax)
	}
	if err := cmp.Or(ids.CheckText("tag name", r.Name), ids.CheckText("tag description", r.Description)); err != nil {
		return nil, fault.Wrap(fault.Invalid, err)
	}
	if err := s.mayTag(r); err != nil {
		return nil, err
	}
	res, err := s.Raft.Propose(ctx, &Tag{
		Namespace: namespace(r.Namespace), JobID: r.JobID, Name: r.Name, Version: r.Version, Latest: r.Latest,
		Description: r.Description, Unset: r.Unset, Versions: s.Config.Versions,
	})
	if err != nil {
		return nil, fmt.Errorf("tag job %q: %w", r.JobID, err)
	}
	out := &api.JobTagResponse{WriteMeta: api.WriteMeta{Index: res.Index}}
	if t, ok := res.Value.(*api.JobVersionTag); ok {
		out.Name, out.Description, out.TaggedTime = t.Name, t.Description, t.TaggedTime
	}
	return out, nil
}
