package httpapi_test

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// world is a small cluster: a node, a job with an allocation, a volume and its plugin.
func world() *cluster {
	c := newCluster()
	meta := api.QueryMeta{Index: 7, KnownLeader: true}
	job := &api.Job{
		ID: "web/dispatch-1", Name: "web", Namespace: "default", Type: "service", Priority: 50,
		TaskGroups: []*api.TaskGroup{{Name: "g", Count: 1, Tasks: []*api.Task{{Name: "t", Driver: "raw_exec"}}}},
	}
	alloc := &api.Allocation{ID: "a1", Namespace: "default", JobID: job.ID, Job: job, TaskGroup: "g", NodeID: "n1", ClientStatus: "running"}
	volume := &api.VolumeDetail{
		Volume: api.Volume{VolumeSpec: api.VolumeSpec{
			ID: "v1", Namespace: "default", PluginID: "hostpath", Secrets: map[string]string{"key": "hunter2"},
			MountOptions: &api.MountOptions{FSType: "ext4", MountFlags: []string{"password=hunter2"}},
		}},
		ExternalID: "x1", State: api.VolumeAvailable,
		WriteAllocs: map[string]*api.Allocation{"a1": alloc},
		Claims:      []*api.VolumeClaim{{VolumeID: "v1", AllocID: "a1", NodeID: "n1", Mode: api.ClaimWrite, State: api.ClaimReady}},
	}
	on(c, wire.NodeList, func(*api.NodeListRequest) (*api.NodeListResponse, error) {
		return &api.NodeListResponse{Nodes: []*api.NodeStub{{ID: "n1", Name: "one", NodePool: "default", Status: "ready"}}, QueryMeta: meta}, nil
	})
	on(c, wire.NodeGet, func(r *api.NodeRequest) (*api.NodeGetResponse, error) {
		if r.NodeID != "n1" {
			return &api.NodeGetResponse{QueryMeta: meta}, nil
		}
		return &api.NodeGetResponse{Node: &api.Node{ID: "n1", SecretID: "hunter2"}, QueryMeta: meta}, nil
	})
	on(c, wire.JobList, func(r *api.JobListRequest) (*api.JobListResponse, error) {
		rows, meta, err := paged(r.QueryOptions, []*api.JobStub{
			{ID: "web", Namespace: "default", Type: "service", Priority: 50, Status: "running", Meta: map[string]string{"team": "x"}},
			{ID: "api", Namespace: "default", Type: "batch", Priority: 70, Status: "dead"},
			{ID: "etl", Namespace: "default", Type: "batch", Priority: 10, Status: "pending"},
		}, func(j *api.JobStub) string { return state.PathToken(j.Namespace, j.ID) })
		return &api.JobListResponse{Jobs: rows, QueryMeta: meta}, err
	})
	on(c, wire.JobGet, func(r *api.JobRequest) (*api.JobGetResponse, error) {
		if r.JobID != job.ID {
			return &api.JobGetResponse{QueryMeta: meta}, nil
		}
		return &api.JobGetResponse{Job: job, QueryMeta: meta}, nil
	})
	on(c, wire.JobRegister, func(*api.JobRegisterRequest) (*api.JobRegisterResponse, error) {
		return &api.JobRegisterResponse{EvalID: "e1", JobModifyIndex: 9, WriteMeta: api.WriteMeta{Index: 9}}, nil
	})
	on(c, wire.JobVersions, func(*api.JobVersionsRequest) (*api.JobVersionsResponse, error) {
		return &api.JobVersionsResponse{Versions: []*api.Job{job}, QueryMeta: meta}, nil
	})
	on(c, wire.AllocGet, func(r *api.AllocRequest) (*api.AllocGetResponse, error) {
		if r.AllocID != "a1" {
			return &api.AllocGetResponse{QueryMeta: meta}, nil
		}
		return &api.AllocGetResponse{Alloc: alloc, QueryMeta: meta}, nil
	})
	on(c, wire.VolumeGet, func(r *api.VolumeGetRequest) (*api.VolumeGetResponse, error) {
		if r.ID != "v1" {
			return &api.VolumeGetResponse{QueryMeta: meta}, nil
		}
		return &api.VolumeGetResponse{Volume: volume, QueryMeta: meta}, nil
	})
	on(c, wire.VolumeCreate, func(*api.VolumeCreateRequest) (*api.VolumeWriteResponse, error) {
		return &api.VolumeWriteResponse{Volumes: []*api.VolumeDetail{volume}, WriteMeta: api.WriteMeta{Index: 8}}, nil
	})
	on(c, wire.VolumeList, func(*api.VolumeListRequest) (*api.VolumeListResponse, error) {
		return &api.VolumeListResponse{Volumes: []*api.VolumeStub{{ID: "v1", Namespace: "default", PluginID: "hostpath", Schedulable: true}}, QueryMeta: meta}, nil
	})
	on(c, wire.VolumeAttachments, func(r *api.VolumeAttachmentListRequest) (*api.VolumeAttachmentListResponse, error) {
		return &api.VolumeAttachmentListResponse{Attachments: []*api.AttachmentStub{
			{PluginID: r.PluginID, ExternalID: "x1", NodeID: r.NodeID, VolumeID: r.VolumeID, State: "unpublishing", Remedy: "nomad volume detach -force v1 n1"},
		}, QueryMeta: meta}, nil
	})
	found := []*api.StorageFinding{{Namespace: "default", VolumeID: "v1", PluginID: "hostpath", Kind: "node-lost", Severity: api.SeverityError, Text: "the node is down", Repair: api.RepairRetry}}
	on(c, wire.VolumeDoctor, func(r *api.VolumeDoctorRequest) (*api.VolumeDoctorResponse, error) {
		if r.ID != "" && r.ID != "v1" {
			return &api.VolumeDoctorResponse{QueryMeta: meta}, nil
		}
		return &api.VolumeDoctorResponse{Volumes: 1, Findings: found, QueryMeta: meta}, nil
	})
	on(c, wire.VolumeRepair, func(r *api.VolumeRepairRequest) (*api.VolumeRepairResponse, error) {
		return &api.VolumeRepairResponse{Repairs: []*api.VolumeRepair{{Repair: api.RepairRetry, Text: "the calls of " + r.ID + " are made"}}, Findings: found, WriteMeta: api.WriteMeta{Index: 8}}, nil
	})
	on(c, wire.VolumeTimeline, func(r *api.VolumeTimelineRequest) (*api.VolumeTimelineResponse, error) {
		return &api.VolumeTimelineResponse{Known: r.ID == "v1", Events: []*api.VolumeEvent{{Time: 1, Index: 7, What: "claim", Result: "ready", AllocID: "a1", After: 5}}, QueryMeta: meta}, nil
	})
	on(c, wire.PluginDoctor, func(r *api.PluginDoctorRequest) (*api.PluginDoctorResponse, error) {
		if r.ID == "missing" {
			return &api.PluginDoctorResponse{QueryMeta: meta}, nil
		}
		return &api.PluginDoctorResponse{Plugins: 1, Reports: []*api.PluginReport{{ID: "hostpath", Instances: []*api.PluginInstance{{NodeID: "n1", Type: "node", Asked: true, Ready: true}}}}, QueryMeta: meta}, nil
	})
	on(c, wire.VolumeDetach, func(r *api.VolumeDetachRequest) (*api.VolumeDetachResponse, error) {
		if r.By != "from 192.0.2.1" && r.By != "from 127.0.0.1" {
			return nil, fault.New(fault.Internal, "by %q", r.By)
		}
		if r.NodeID == "n" {
			return &api.VolumeDetachResponse{WriteMeta: api.WriteMeta{Index: 8}}, nil
		}
		return nil, fault.New(fault.Conflict, "asked for volume %q, plugin %q, external %q on %q, force %v because %q", r.VolumeID, r.PluginID, r.ExternalID, r.NodeID, r.Force, r.Reason)
	})
	on(c, wire.PluginGet, func(*api.PluginGetRequest) (*api.PluginGetResponse, error) {
		return &api.PluginGetResponse{QueryMeta: meta}, nil
	})
	on(c, wire.StatusLeader, func(*api.QueryOptions) (*api.StatusLeaderResponse, error) {
		return &api.StatusLeaderResponse{Leader: "127.0.0.1:4647"}, nil
	})
	on(c, wire.StatusRegions, func(*api.QueryOptions) (*api.RegionListResponse, error) {
		return &api.RegionListResponse{Regions: []string{"global"}}, nil
	})
	on(c, wire.KeyringPublic, func(*api.QueryOptions) (*api.JSONWebKeysResponse, error) {
		return &api.JSONWebKeysResponse{Keys: []*api.JSONWebKey{{Use: "sig", Kty: "RSA", Kid: "k1", Alg: "RS256", N: "wPZ_", E: "AQAB"}}, QueryMeta: meta}, nil
	})
	deployed(c, meta)
	on(c, wire.OperatorSchedulerConfig, func(*api.QueryOptions) (*api.SchedulerConfigResponse, error) {
		return &api.SchedulerConfigResponse{SchedulerConfig: &api.SchedulerConfiguration{SchedulerAlgorithm: "binpack"}, QueryMeta: meta}, nil
	})
	on(c, wire.ClientAllocFileRead, func(r *api.AllocFileRequest) (*api.AllocFileReadResponse, error) {
		text := "hello, file"
		end := min(r.Offset+r.Limit, int64(len(text)))
		return &api.AllocFileReadResponse{Data: []byte(text[min(r.Offset, end):end]), EOF: end == int64(len(text))}, nil
	})
	on(c, wire.ClientAllocFileStat, func(*api.AllocFileRequest) (*api.AllocFileStatResponse, error) {
		return &api.AllocFileStatResponse{Info: &api.AllocFileInfo{Name: "f", Size: 11, ModTime: time.Unix(0, 0).UTC()}}, nil
	})
	on(c, wire.ClientAllocLogs, func(r *api.AllocLogsRequest) (*api.AllocLogsResponse, error) {
		if r.Cursor.Started {
			return &api.AllocLogsResponse{Cursor: r.Cursor, End: true, Ended: true}, nil
		}
		return &api.AllocLogsResponse{Data: []byte("line\n"), File: "alloc/logs/t.stdout.0", Cursor: api.LogCursor{Started: true, Offset: 5}, End: r.Wait == 0}, nil
	})
	return c
}

// deployed adds what the change of jobs answers.
func deployed(c *cluster, meta api.QueryMeta) {
	d := &api.Deployment{ID: "d1", Namespace: "default", JobID: "web", Status: "running", TaskGroups: map[string]*api.DeploymentState{"g": {DesiredTotal: 2}}}
	update := func() (*api.DeploymentUpdateResponse, error) {
		return &api.DeploymentUpdateResponse{EvalID: "e1", EvalCreateIndex: 9, DeploymentModifyIndex: 9, WriteMeta: api.WriteMeta{Index: 9}}, nil
	}
	on(c, wire.DeploymentGet, func(r *api.DeploymentRequest) (*api.DeploymentGetResponse, error) {
		if r.DeploymentID != "d1" {
			return &api.DeploymentGetResponse{QueryMeta: meta}, nil
		}
		return &api.DeploymentGetResponse{Deployment: d, QueryMeta: meta}, nil
	})
	on(c, wire.DeploymentPause, func(*api.DeploymentPauseRequest) (*api.DeploymentUpdateResponse, error) { return update() })
	on(c, wire.DeploymentPromote, func(*api.DeploymentPromoteRequest) (*api.DeploymentUpdateResponse, error) { return update() })
	on(c, wire.DeploymentFail, func(r *api.DeploymentWriteRequest) (*api.DeploymentUpdateResponse, error) {
		if r.DeploymentID == "d1" {
			return update()
		}
		return nil, fault.New(fault.Invalid, "can't fail terminal deployment")
	})
	on(c, wire.JobDeployment, func(r *api.JobRequest) (*api.JobDeploymentResponse, error) {
		if r.JobID != "web" {
			return &api.JobDeploymentResponse{QueryMeta: meta}, nil
		}
		return &api.JobDeploymentResponse{Deployment: d, QueryMeta: meta}, nil
	})
	on(c, wire.JobRevert, func(*api.JobRevertRequest) (*api.JobRegisterResponse, error) {
		return &api.JobRegisterResponse{EvalID: "e1", EvalCreateIndex: 9, JobModifyIndex: 9, WriteMeta: api.WriteMeta{Index: 9}}, nil
	})
	on(c, wire.JobStable, func(*api.JobStabilityRequest) (*api.JobStabilityResponse, error) {
		return &api.JobStabilityResponse{JobModifyIndex: 9, WriteMeta: api.WriteMeta{Index: 9}}, nil
	})
	on(c, wire.JobTag, func(r *api.JobTagRequest) (*api.JobTagResponse, error) {
		if r.Unset {
			return &api.JobTagResponse{WriteMeta: api.WriteMeta{Index: 10}}, nil
		}
		return &api.JobTagResponse{Name: r.Name, Description: r.Description, TaggedTime: 5, WriteMeta: api.WriteMeta{Index: 9}}, nil
	})
	on(c, wire.JobScaleStatus, func(r *api.JobRequest) (*api.JobScaleStatusResponse, error) {
		if r.JobID != "web" {
			return &api.JobScaleStatusResponse{QueryMeta: meta}, nil
		}
		return &api.JobScaleStatusResponse{JobScaleStatus: &api.JobScaleStatus{
			JobID: "web", Namespace: "default", TaskGroups: map[string]*api.TaskGroupScaleStatus{"g": {Desired: 2, Placed: 2, Running: 2, Healthy: 2}},
		}, QueryMeta: meta}, nil
	})
	on(c, wire.JobScale, func(*api.JobScaleRequest) (*api.JobRegisterResponse, error) {
		return &api.JobRegisterResponse{EvalID: "e1", EvalCreateIndex: 9, JobModifyIndex: 8, WriteMeta: api.WriteMeta{Index: 10}}, nil
	})
	on(c, wire.JobDispatch, func(r *api.JobDispatchRequest) (*api.JobDispatchResponse, error) {
		return &api.JobDispatchResponse{DispatchedJobID: r.JobID + "/dispatch-1", EvalID: "e1", EvalCreateIndex: 9, JobCreateIndex: 9, WriteMeta: api.WriteMeta{Index: 9}}, nil
	})
	on(c, wire.JobPeriodicForce, func(*api.JobRequest) (*api.PeriodicForceResponse, error) {
		return &api.PeriodicForceResponse{EvalID: "e1", EvalCreateIndex: 9, WriteMeta: api.WriteMeta{Index: 9}}, nil
	})
	policy := &api.ScalingPolicy{
		ID: "p1", Type: "horizontal", Min: 1, Max: 5, Enabled: true, CreateIndex: 4, ModifyIndex: 4,
		Target: map[string]string{"Namespace": "default", "Job": "web", "Group": "g"},
	}
	on(c, wire.ScalingPolicyList, func(*api.ScalingPolicyListRequest) (*api.ScalingPolicyListResponse, error) {
		return &api.ScalingPolicyListResponse{Policies: []*api.ScalingPolicy{policy}, QueryMeta: meta}, nil
	})
	on(c, wire.ScalingPolicyGet, func(r *api.NameRequest) (*api.ScalingPolicyGetResponse, error) {
		if r.Name != "p1" {
			return &api.ScalingPolicyGetResponse{QueryMeta: meta}, nil
		}
		return &api.ScalingPolicyGetResponse{Policy: policy, QueryMeta: meta}, nil
	})
	evals := []*api.Evaluation{{ID: "e1", JobID: "web", Status: "complete"}, {ID: "e2", JobID: "db", Status: "pending"}}
	byID := func(e *api.Evaluation) string { return e.ID }
	on(c, wire.EvalList, func(r *api.EvalListRequest) (*api.EvalListResponse, error) {
		rows, meta, err := paged(r.QueryOptions, evals, byID)
		return &api.EvalListResponse{Evaluations: rows, QueryMeta: meta}, err
	})
	on(c, wire.EvalCount, func(r *api.EvalListRequest) (*api.EvalCountResponse, error) {
		rows, meta, err := paged(r.QueryOptions, evals, byID)
		return &api.EvalCountResponse{Count: len(rows), QueryMeta: meta}, err
	})
	on(c, wire.EvalDelete, func(r *api.EvalDeleteRequest) (*api.EvalDeleteResponse, error) {
		return &api.EvalDeleteResponse{Count: len(r.EvalIDs), WriteMeta: api.WriteMeta{Index: 9}}, nil
	})
}
