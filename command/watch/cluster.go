package watch

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
)

// Sizes of pages. A page of volumes is smaller because each volume is read with its claims.
const (
	pageSize       = 200
	volumePageSize = 30
	timelineSize   = 30
)

// Bounds of a read: how long it waits for a change, and how long it may take after that.
const (
	changeWait = 5 * time.Second
	storeWait  = 2 * time.Second
	readMax    = 30 * time.Second
)

// cluster reads what screens show.
type cluster struct{ *rest.Client }

// read returns what the screen of a request shows. It waits for a change if the request has an index.
func (c cluster) read(ctx context.Context, r loadEffect) (out loadedMsg) {
	ctx, cancel := context.WithTimeout(ctx, readMax)
	defer cancel()
	q := rest.Query{Namespace: r.namespace, Index: r.index, Wait: changeWait, PerPage: pageSize, NextToken: r.token}
	one := rest.Query{Index: r.index, Wait: changeWait}
	in := cluster{c.In(r.of.namespace)}
	var meta rest.Meta
	var err error
	wide := r.namespace == "*"
	switch r.of.kind {
	case jobs:
		var list []*api.JobStub
		q.Filter = contains(r.filter, "ID", "Name", "Status", "Type")
		list, meta, err = c.Jobs(ctx, q)
		out.show = func(now time.Time) content { return jobList(list, wide, now) }
	case allocs:
		var list []*api.AllocStub
		q.Filter, q.Reverse = contains(r.filter, "ID", "JobID", "TaskGroup", "NodeName", "ClientStatus"), true
		list, meta, err = c.Allocs(ctx, q)
		out.show = func(now time.Time) content { return allocList(list, wide, now) }
	case volumes:
		q.Wait, q.PerPage, q.Filter = storeWait, volumePageSize, contains(r.filter, "ID", "Name", "PluginID")
		out.show, meta, err = c.volumes(ctx, q, wide)
	case nodes:
		var list []*api.NodeStub
		q.Namespace, q.Filter = "", contains(r.filter, "ID", "Name", "Datacenter", "NodePool", "Status")
		list, meta, err = c.Nodes(ctx, q)
		out.show = func(time.Time) content { return nodeList(list) }
	case job:
		out.show, meta, err = in.job(ctx, r.of, one)
	case alloc:
		var a *api.Allocation
		a, meta, err = in.Alloc(ctx, r.of.id, one)
		if err == nil {
			out.show = func(now time.Time) content { return allocation(a, now) }
		}
	case volume:
		one.Wait = storeWait
		out.show, meta, err = in.volume(ctx, r.of, one)
	case node:
		out.show, meta, err = c.node(ctx, r.of, one)
	default:
		err = fault.New(fault.Internal, "screen %d has no data", r.of.kind)
	}
	out.number, out.index, out.next, out.err = r.number, meta.Index, meta.NextToken, err
	return out
}

func (c cluster) job(ctx context.Context, of place, q rest.Query) (func(time.Time) content, rest.Meta, error) {
	// The summary changes with the allocations of the job, the job does not.
	summary, meta, err := c.JobSummary(ctx, of.id, q)
	if err != nil {
		return nil, meta, err
	}
	j, _, err := c.Job(ctx, of.id, rest.Query{})
	if err != nil {
		return nil, meta, err
	}
	list, _, err := c.Allocs(ctx, rest.Query{Filter: "JobID == " + quoted(of.id), PerPage: pageSize, Reverse: true})
	if err != nil {
		return nil, meta, err
	}
	evals, _, err := c.Evals(ctx, rest.Query{PerPage: 20, Reverse: true, Filter: "JobID == " + quoted(of.id)})
	if err != nil {
		return nil, meta, err
	}
	d, err := c.JobDeployment(ctx, of.id)
	if err != nil {
		return nil, meta, err
	}
	var children []*api.JobStub
	if j.Periodic != nil || j.ParameterizedJob != nil {
		children, _, err = c.Jobs(ctx, rest.Query{Filter: "ParentID == " + quoted(of.id), PerPage: pageSize})
	}
	return func(now time.Time) content { return jobDetail(j, summary, d, evals, list, children, now) }, meta, err
}

// volumes reads a page of volumes, the findings of the doctor, and who holds them.
func (c cluster) volumes(ctx context.Context, q rest.Query, wide bool) (func(time.Time) content, rest.Meta, error) {
	list, meta, err := c.Volumes(ctx, q)
	if err != nil {
		return nil, meta, err
	}
	report, err := c.VolumeDoctor(ctx, "", rest.Query{Namespace: q.Namespace})
	if err != nil {
		return nil, meta, err
	}
	details := make([]*api.VolumeDetail, len(list))
	var wait sync.WaitGroup
	free := make(chan struct{}, 4)
	for i, v := range list {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			// A volume that is deleted in the meantime has no claims.
			details[i], _, _ = c.In(v.Namespace).Volume(ctx, v.ID, rest.Query{})
		})
	}
	wait.Wait()
	return func(now time.Time) content { return volumeList(list, details, report.Findings, wide, now) }, meta, ctx.Err()
}

func (c cluster) volume(ctx context.Context, of place, q rest.Query) (func(time.Time) content, rest.Meta, error) {
	v, meta, err := c.Volume(ctx, of.id, q)
	if err != nil {
		return nil, meta, err
	}
	report, err := c.VolumeDoctor(ctx, of.id, rest.Query{})
	if err != nil {
		return nil, meta, err
	}
	events, _, err := c.VolumeTimeline(ctx, of.id, rest.Query{Params: url.Values{"last": {strconv.Itoa(timelineSize)}}})
	return func(now time.Time) content { return volumeDetail(v, report.Findings, events, now) }, meta, err
}

func (c cluster) node(ctx context.Context, of place, q rest.Query) (func(time.Time) content, rest.Meta, error) {
	n, meta, err := c.Node(ctx, of.id, q)
	if err != nil {
		return nil, meta, err
	}
	list, _, err := c.Allocs(ctx, rest.Query{Namespace: "*", Filter: "NodeID == " + quoted(of.id), PerPage: pageSize, Reverse: true})
	return func(now time.Time) content { return nodeDetail(n, list, now) }, meta, err
}

// task is the task of a place, or the first of its allocation.
func (c cluster) task(ctx context.Context, of place) (string, error) {
	if of.task != "" {
		return of.task, nil
	}
	a, _, err := c.Alloc(ctx, of.id, rest.Query{})
	if err != nil {
		return "", err
	}
	names := tasksOf(a)
	if len(names) == 0 {
		return "", fault.New(fault.NotFound, "allocation %s has no tasks", short(of.id))
	}
	return names[0], nil
}

// contains is the filter expression of lists: one of the fields contains the text.
func contains(text string, fields ...string) string {
	if text == "" {
		return ""
	}
	var parts []string
	for _, f := range fields {
		parts = append(parts, f+" contains "+quoted(text))
	}
	return strings.Join(parts, " or ")
}

// quoted writes a text into a filter expression, whose strings know no escapes.
func quoted(text string) string {
	if strings.ContainsAny(text, `"\`) {
		return "`" + strings.ReplaceAll(text, "`", "") + "`"
	}
	return `"` + text + `"`
}
