package rpc

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/access"
)

// names are the metrics of methods where they are not those of [MetricName]: the names in existing dashboards.
var names = map[string]string{
	"Node.Register": "nomad.client.register", "Node.Heartbeat": "nomad.client.update_status", "Node.Assignments": "nomad.client.get_client_allocs",
	"Node.UpdateAllocs": "nomad.client.update_alloc", "Node.List": "nomad.client.list", "Node.Get": "nomad.client.get_node",
	"Node.Allocations": "nomad.client.get_allocs", "Node.Eligibility": "nomad.client.update_eligibility", "Node.Drain": "nomad.client.update_drain",
	"Node.Evaluate": "nomad.client.evaluate", "Node.Purge": "nomad.client.deregister",
	"Job.Get": "nomad.job.get_job", "Job.Versions": "nomad.job.get_job_versions", "Job.Submission": "nomad.job.get_job_submission",
	"Job.Summary": "nomad.job_summary.get_job_summary", "Job.Deployment": "nomad.job.latest_deployment", "Job.Tag": "nomad.job.tag_version",
	"Job.PeriodicForce": "nomad.periodic.force", "Job.Statuses": "nomad.jobs.statuses", "Job.Actions": "nomad.job.get_actions",
	"Scaling.List": "nomad.scaling.list_policies", "Scaling.Get": "nomad.scaling.get_policy",
	// The leader records these for its own workers too.
	"Eval.Dequeue": "nomad.rpc.eval_dequeue", "Eval.Ack": "nomad.rpc.eval_ack", "Plan.Submit": "nomad.rpc.plan_submit",
	"Eval.Get": "nomad.eval.get_eval", "Alloc.Get": "nomad.alloc.get_alloc",
	"Deployment.Get": "nomad.deployment.get_deployment", "Deployment.AllocHealth": "nomad.deployment.set_alloc_health",
	"Volume.Detach": "nomad.volume.unpublish", "Volume.SnapshotCreate": "nomad.volume.create_snapshot",
	"Volume.SnapshotDelete": "nomad.volume.delete_snapshot", "Volume.SnapshotList": "nomad.volume.list_snapshots",
	"Namespace.List": "nomad.namespace.list_namespace", "Namespace.Get": "nomad.namespace.get_namespace",
	"Namespace.Upsert": "nomad.namespace.upsert_namespaces", "Namespace.Delete": "nomad.namespace.delete_namespaces",
	"NodePool.Get": "nomad.node_pool.get_node_pool", "NodePool.Upsert": "nomad.node_pool.upsert_node_pools", "NodePool.Delete": "nomad.node_pool.delete_node_pools",
	"Keyring.Public":      "nomad.keyring.list_public",
	"ACL.DeleteRolesByID": "nomad.acl.delete_roles", "ACL.DeleteAuthMethods": "nomad.acl.delete_auth_methods_by_name",
	"ACL.GetAuthMethod": "nomad.acl.get_auth_method_name", "ACL.GetRole": "nomad.acl.get_role_id", "ACL.WhoAmI": "nomad.acl.whoami",
	"ACL.OIDCAuthURL": "nomad.acl.oidc_auth_url", "ACL.OIDCCompleteAuth": "nomad.acl.oidc_complete_auth",
	"ServiceRegistration.DeleteByID": "nomad.service_registration.delete_id",
	"Search.Prefix":                  "nomad.search.prefix_search", "Search.FuzzySearch": "nomad.search.fuzzy_search",
	"ClientAlloc.GC": "nomad.client_allocations.garbage_collect", "ClientAlloc.Pause": "nomad.client_allocations.pause_set",
	"ClientAlloc.PauseState": "nomad.client_allocations.pause_get", "ClientAlloc.Restart": "nomad.client_allocations.restart",
	"ClientAlloc.Signal": "nomad.client_allocations.signal", "ClientAlloc.Stats": "nomad.client_allocations.stats",
	"ClientAlloc.Checks": "nomad.client_allocations.checks", "ClientNode.GC": "nomad.client_allocations.garbage_collect_all",
	"ClientAlloc.FileList": "nomad.file_system.list", "ClientAlloc.FileStat": "nomad.file_system.stat", "ClientAlloc.FileRead": "nomad.file_system.stream",
	"ClientAlloc.Logs": "nomad.file_system.logs", "ClientAlloc.ExecOpen": "nomad.alloc.exec",
	"ClientNode.Stats": "nomad.client_stats.stats", "ClientNode.Identity": "nomad.client_identity.get", "ClientNode.IdentityRenew": "nomad.client_identity.renew",
	"NodeMeta.Read": "nomad.client_meta.read", "NodeMeta.Apply": "nomad.client_meta.apply",
	"Controller.Publish": "nomad.client_csi_controller.attach_volume", "Controller.Unpublish": "nomad.client_csi_controller.detach_volume",
	"Controller.Validate": "nomad.client_csi_controller.validate_volume", "Controller.Create": "nomad.client_csi_controller.create_volume",
	"Controller.Delete": "nomad.client_csi_controller.delete_volume", "Controller.Expand": "nomad.client_csi_controller.expand_volume",
	"Controller.List": "nomad.client_csi_controller.list_volumes", "Controller.Snapshot": "nomad.client_csi_controller.create_snapshot",
	"Controller.SnapshotDelete": "nomad.client_csi_controller.delete_snapshot", "Controller.SnapshotList": "nomad.client_csi_controller.list_snapshots",
	"NodeHostVolume.Create": "nomad.client_host_volume.create", "NodeHostVolume.Delete": "nomad.client_host_volume.delete",
	"NodeVolume.Expand": "nomad.client_csi_node.expand_volume", "NodeVolume.Detach": "nomad.client_csi_node.detach_volume",
}

// MetricName is the name of the metric with the duration of the calls of a method: "Job.Register" is
// "nomad.job.register".
func MetricName(method string) string {
	if name, ok := names[method]; ok {
		return name
	}
	service, op, _ := strings.Cut(method, ".")
	return "nomad." + metrics.Snake(service) + "." + metrics.Snake(op)
}

// Names of metrics of all methods together.
const (
	metricAccept   = "nomad.rpc.accept_conn"
	metricRequest  = "nomad.rpc.request"
	metricError    = "nomad.rpc.request_error"
	metricQuery    = "nomad.rpc.query"
	metricRegion   = "nomad.rpc.cross-region."
	metricEndpoint = "nomad.rpc."
)

// meter records the calls of one method.
type meter struct {
	to *metrics.Recorder
	// took is the metric with the durations, rate that with the number of calls of its kind.
	took, rate string
	query      bool
}

func (s *Server) meterOf(h wire.Handler) meter {
	service, op, _ := strings.Cut(h.Name, ".")
	m := meter{to: s.config.Metrics, took: MetricName(h.Name), query: h.Scope == wire.Any, rate: "write"}
	switch {
	case strings.HasPrefix(op, "List"):
		m.rate = "list"
	case h.Scope != wire.Leader:
		m.rate = "read"
	}
	m.rate = metricEndpoint + metrics.Snake(service) + "." + m.rate
	return m
}

// done records the end of a call.
func (m meter) done(start time.Time, err error) {
	m.to.Count(metricRequest, 1)
	m.to.Since(m.took, start)
	if m.query {
		m.to.Count(metricQuery, 1)
	}
	if err != nil {
		m.to.Count(metricError, 1)
	}
}

// counted counts the calls of a handler that the server serves itself, by who calls. It is the last interceptor: names of
// callers that are not verified would make metrics without end.
func (s *Server) counted(h wire.Handler, next serve) serve {
	if s.config.Metrics == nil {
		return next
	}
	m, labels := s.meterOf(h), !s.config.NoIdentityLabels
	return func(ctx context.Context, req any) (any, error) {
		if labels {
			m.to.Count(m.rate, 1, metrics.Label{Name: "identity", Value: identityOf(ctx, h)})
		} else {
			m.to.Count(m.rate, 1)
		}
		return next(ctx, req)
	}
}

// identityOf says who calls: a node, a server, a workload, or the accessor of a token.
func identityOf(ctx context.Context, h wire.Handler) string {
	c := access.Of(ctx)
	switch {
	case h.Auth == wire.ByServer || h.Auth == wire.ByPeer:
		return "server"
	case h.Auth == wire.ByNode || c.NodeID != "":
		return "client"
	case c.Identity != nil:
		return "workload"
	case !access.Enabled(ctx) || c.Anonymous():
		return "anonymous"
	}
	return "token:" + c.Token.AccessorID
}

// acceptor counts the connections of a listener.
type acceptor struct {
	net.Listener
	to   *metrics.Recorder
	name string
}

// Accept implements [net.Listener].
func (a acceptor) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err == nil {
		a.to.Count(a.name, 1)
	}
	return c, err
}

// Counted counts the connections that a listener accepts.
func Counted(l net.Listener, to *metrics.Recorder, name string) net.Listener {
	return acceptor{l, to, name}
}
