package wire

import "github.com/open-nomad/open-nomad/api"

// heavy are the methods that compute for up to seconds and wait for nothing.
var heavy = map[string]bool{JobPlan.Name: true, JobValidate.Name: true}

// Methods of Node.
var (
	// NodeRegister registers a node or updates its fingerprint.
	NodeRegister = Method[api.NodeRegisterRequest, api.NodeUpdateResponse]{"Node.Register", Leader, ByNode, internal}
	// NodeHeartbeat renews the lease of a node.
	NodeHeartbeat = Method[api.NodeHeartbeatRequest, api.NodeUpdateResponse]{"Node.Heartbeat", Leader, ByNode, internal}
	// NodeAssignments blocks until the node's allocations change.
	NodeAssignments = Method[api.NodeAssignmentsRequest, api.NodeAssignmentsResponse]{"Node.Assignments", Any, ByNode, internal}
	// NodeUpdateAllocs reports the client half of allocations.
	NodeUpdateAllocs = Method[api.AllocUpdateRequest, api.WriteMeta]{"Node.UpdateAllocs", Leader, ByNode, internal}
	// NodeList lists nodes.
	NodeList = Method[api.NodeListRequest, api.NodeListResponse]{"Node.List", Any, ByUser, nodeRead}
	// NodeGet reads one node.
	NodeGet = Method[api.NodeRequest, api.NodeGetResponse]{"Node.Get", Any, ByUser, nodeRead}
	// NodeAllocations lists the allocations of a node.
	NodeAllocations = Method[api.NodeRequest, api.AllocFullListResponse]{"Node.Allocations", Any, ByUser, nodeRead.and(seeing("read-job"))}
	// NodeEligibility makes a node eligible or not.
	NodeEligibility = Method[api.NodeEligibilityRequest, api.NodeWriteResponse]{"Node.Eligibility", Leader, ByUser, nodeWrite}
	// NodeDrain starts or ends a drain.
	NodeDrain = Method[api.NodeDrainRequest, api.NodeWriteResponse]{"Node.Drain", Leader, ByUser, nodeWrite}
	// NodeEvaluate evaluates all jobs of a node.
	NodeEvaluate = Method[api.NodeWriteRequest, api.NodeWriteResponse]{"Node.Evaluate", Leader, ByUser, nodeWrite}
	// NodePurge forgets a node.
	NodePurge = Method[api.NodeWriteRequest, api.NodeWriteResponse]{"Node.Purge", Leader, ByUser, nodeWrite}
	// NodeRelay passes a call on to a node that is connected to the asked server.
	NodeRelay = Method[api.RelayRequest, api.RelayResponse]{"Node.Relay", Local, ByPeer, internal}
	// NodeCall forwards a user's call of ClientAlloc or ClientNode to a node.
	NodeCall = Method[api.NodeCallRequest, api.RelayResponse]{"Node.Call", Local, ByUser, judged}
)

// Methods of Job.
var (
	// JobRegister registers a job.
	JobRegister = Method[api.JobRegisterRequest, api.JobRegisterResponse]{"Job.Register", Leader, ByUser, inNamespace("submit-job", "register-job")}
	// JobValidate checks a job.
	JobValidate = Method[api.JobValidateRequest, api.JobValidateResponse]{"Job.Validate", Leader, ByUser, readJob}
	// JobPlan returns what a registration would change.
	JobPlan = Method[api.JobPlanRequest, api.JobPlanResponse]{"Job.Plan", Leader, ByUser, inNamespace("submit-job", "plan-job")}
	// JobDeregister stops or purges a job.
	JobDeregister = Method[api.JobDeregisterRequest, api.JobRegisterResponse]{"Job.Deregister", Leader, ByUser, inNamespace("submit-job", "deregister-job", "purge-job")}
	// JobEvaluate evaluates a job.
	JobEvaluate = Method[api.JobEvaluateRequest, api.JobRegisterResponse]{"Job.Evaluate", Leader, ByUser, inNamespace("submit-job", "evaluate-job")}
	// JobList lists jobs.
	JobList = Method[api.JobListRequest, api.JobListResponse]{"Job.List", Any, ByUser, inNamespace("list-jobs")}
	// JobStatuses lists the state of jobs with their allocations.
	JobStatuses = Method[api.JobStatusesRequest, api.JobStatusesResponse]{"Job.Statuses", Any, ByUser, readJob}
	// JobGet reads one job.
	JobGet = Method[api.JobRequest, api.JobGetResponse]{"Job.Get", Any, ByUser, readJob}
	// JobVersions lists the versions of a job.
	JobVersions = Method[api.JobVersionsRequest, api.JobVersionsResponse]{"Job.Versions", Any, ByUser, readJob}
	// JobSubmission reads the source of a job.
	JobSubmission = Method[api.JobRequest, api.JobSubmissionResponse]{"Job.Submission", Any, ByUser, readJob}
	// JobSummary counts a job's allocations.
	JobSummary = Method[api.JobRequest, api.JobSummaryResponse]{"Job.Summary", Any, ByUser, readJob}
	// JobAllocations lists a job's allocations.
	JobAllocations = Method[api.JobRequest, api.AllocListResponse]{"Job.Allocations", Any, ByUser, readJob}
	// JobEvaluations lists a job's evaluations.
	JobEvaluations = Method[api.JobRequest, api.EvalListResponse]{"Job.Evaluations", Any, ByUser, readJob}
	// JobDeployments lists a job's deployments.
	JobDeployments = Method[api.JobRequest, api.JobDeploymentsResponse]{"Job.Deployments", Any, ByUser, readJob}
	// JobDeployment reads a job's newest deployment.
	JobDeployment = Method[api.JobRequest, api.JobDeploymentResponse]{"Job.Deployment", Any, ByUser, readJob}
	// JobRevert goes back to an older version.
	JobRevert = Method[api.JobRevertRequest, api.JobRegisterResponse]{"Job.Revert", Leader, ByUser, inNamespace("submit-job", "revert-job")}
	// JobStable marks a version as stable.
	JobStable = Method[api.JobStabilityRequest, api.JobStabilityResponse]{"Job.Stable", Leader, ByUser, inNamespace("submit-job", "stable-job")}
	// JobTag names a version.
	JobTag = Method[api.JobTagRequest, api.JobTagResponse]{"Job.Tag", Leader, ByUser, inNamespace("submit-job", "tag-job-version")}
	// JobScale changes the count of a group.
	JobScale = Method[api.JobScaleRequest, api.JobRegisterResponse]{"Job.Scale", Leader, ByUser, inNamespace("submit-job", "scale-job")}
	// JobScaleStatus reads what scaling a job looks like.
	JobScaleStatus = Method[api.JobRequest, api.JobScaleStatusResponse]{"Job.ScaleStatus", Any, ByUser, inNamespace("read-job", "read-job-scaling")}
	// JobDispatch runs an instance of a parameterised job.
	JobDispatch = Method[api.JobDispatchRequest, api.JobDispatchResponse]{"Job.Dispatch", Leader, ByUser, inNamespace("dispatch-job")}
	// JobPeriodicForce launches a periodic job out of turn.
	JobPeriodicForce = Method[api.JobRequest, api.PeriodicForceResponse]{"Job.PeriodicForce", Leader, ByUser, inNamespace("submit-job", "dispatch-job", "force-periodic-job")}
	// ScalingPolicyList lists scaling policies.
	ScalingPolicyList = Method[api.ScalingPolicyListRequest, api.ScalingPolicyListResponse]{"Scaling.List", Any, ByUser, inNamespace("list-scaling-policies", "read-job")}
	// ScalingPolicyGet reads one scaling policy.
	ScalingPolicyGet = Method[api.NameRequest, api.ScalingPolicyGetResponse]{"Scaling.Get", Any, ByUser, ofRow("read-scaling-policy", "read-job")}
)

// SearchFuzzy finds objects whose names contain a text. What it finds depends on the caller.
var SearchFuzzy = Method[api.FuzzySearchRequest, api.FuzzySearchResponse]{"Search.FuzzySearch", Any, ByUser, judged}

// Methods of Eval.
var (
	// EvalList lists evaluations.
	EvalList = Method[api.EvalListRequest, api.EvalListResponse]{"Eval.List", Any, ByUser, readJob}
	// EvalGet reads one evaluation.
	EvalGet = Method[api.EvalRequest, api.EvalGetResponse]{"Eval.Get", Any, ByUser, readJobOfRow}
	// EvalAllocations lists an evaluation's allocations.
	EvalAllocations = Method[api.EvalRequest, api.AllocListResponse]{"Eval.Allocations", Any, ByUser, readJobOfRow}
	// EvalCount counts evaluations.
	EvalCount = Method[api.EvalListRequest, api.EvalCountResponse]{"Eval.Count", Any, ByUser, readJob}
	// EvalDelete deletes evaluations.
	EvalDelete = Method[api.EvalDeleteRequest, api.EvalDeleteResponse]{"Eval.Delete", Leader, ByUser, management}
	// EvalDequeue hands work to a server's worker.
	EvalDequeue = Method[api.EvalDequeueRequest, api.EvalDequeueResponse]{"Eval.Dequeue", Leader, ByServer, internal}
	// EvalAck reports the outcome of an evaluation.
	EvalAck = Method[api.EvalAckRequest, api.Empty]{"Eval.Ack", Leader, ByServer, internal}
	// EvalUpdate writes processed evaluations.
	EvalUpdate = Method[api.EvalUpdateRequest, api.WriteMeta]{"Eval.Update", Leader, ByServer, internal}
	// PlanSubmit commits a worker's plan.
	PlanSubmit = Method[api.PlanSubmitRequest, api.PlanSubmitResponse]{"Plan.Submit", Leader, ByServer, internal}
)

// Methods of Alloc.
var (
	// AllocList lists allocations.
	AllocList = Method[api.AllocListRequest, api.AllocRowsResponse]{"Alloc.List", Any, ByUser, readJob}
	// AllocGet reads one allocation.
	AllocGet = Method[api.AllocRequest, api.AllocGetResponse]{"Alloc.Get", Any, ByUser, ofRow("read-job", "read-fs", "read-logs", "alloc-lifecycle", "alloc-exec", "gc-allocation", "submit-job")}
	// AllocSignIdentities signs identities of the tasks of a node.
	AllocSignIdentities = Method[api.AllocSignIdentitiesRequest, api.AllocSignIdentitiesResponse]{"Alloc.SignIdentities", Leader, ByNode, internal}
	// AllocDiskData reads a page of the data of a previous allocation from its node, for the node of its replacement.
	AllocDiskData = Method[api.DiskDataRequest, api.DiskDataResponse]{"Alloc.DiskData", Local, ByNode, internal}
	// AllocStop stops an allocation.
	AllocStop = Method[api.AllocStopRequest, api.AllocStopResponse]{"Alloc.Stop", Leader, ByUser, lifecycle}
)

// Methods of Deployment.
var (
	// DeploymentList lists deployments.
	DeploymentList = Method[api.QueryOptions, api.DeploymentListResponse]{"Deployment.List", Any, ByUser, readJob}
	// DeploymentGet reads one deployment.
	DeploymentGet = Method[api.DeploymentRequest, api.DeploymentGetResponse]{"Deployment.Get", Any, ByUser, readJobOfRow}
	// DeploymentAllocations lists a deployment's allocations.
	DeploymentAllocations = Method[api.DeploymentRequest, api.AllocListResponse]{"Deployment.Allocations", Any, ByUser, readJobOfRow}
	// DeploymentFail fails a deployment.
	DeploymentFail = Method[api.DeploymentWriteRequest, api.DeploymentUpdateResponse]{"Deployment.Fail", Leader, ByUser, ofRow("submit-job", "fail-deployment")}
	// DeploymentPause pauses or resumes a deployment.
	DeploymentPause = Method[api.DeploymentPauseRequest, api.DeploymentUpdateResponse]{"Deployment.Pause", Leader, ByUser, ofRow("submit-job", "pause-deployment")}
	// DeploymentPromote promotes canaries.
	DeploymentPromote = Method[api.DeploymentPromoteRequest, api.DeploymentUpdateResponse]{"Deployment.Promote", Leader, ByUser, ofRow("submit-job", "promote-deployment")}
	// DeploymentAllocHealth sets the health of allocations by hand.
	DeploymentAllocHealth = Method[api.DeploymentAllocHealthRequest, api.DeploymentUpdateResponse]{"Deployment.AllocHealth", Leader, ByUser, ofRow("submit-job", "set-alloc-health-deployment")}
	// DeploymentUnblock lets a blocked multi-region deployment end.
	DeploymentUnblock = Method[api.DeploymentWriteRequest, api.DeploymentUpdateResponse]{"Deployment.Unblock", Leader, ByUser, ofRow("submit-job", "unblock-deployment")}
)

// Methods of Volume.
var (
	// VolumeRegister registers existing volumes.
	VolumeRegister = Method[api.VolumeRegisterRequest, api.VolumeWriteResponse]{"Volume.Register", Leader, ByUser, writeVolume.and(pluginRead)}
	// VolumeCreate creates volumes at the provider.
	VolumeCreate = Method[api.VolumeCreateRequest, api.VolumeWriteResponse]{"Volume.Create", Leader, ByUser, writeVolume.and(pluginRead)}
	// VolumeDeregister forgets a volume.
	VolumeDeregister = Method[api.VolumeDeregisterRequest, api.WriteMeta]{"Volume.Deregister", Leader, ByUser, writeVolume}
	// VolumeDelete deletes a volume at the provider.
	VolumeDelete = Method[api.VolumeDeleteRequest, api.WriteMeta]{"Volume.Delete", Leader, ByUser, writeVolume.and(pluginRead)}
	// VolumeDetach releases a volume from a node.
	VolumeDetach = Method[api.VolumeDetachRequest, api.VolumeDetachResponse]{"Volume.Detach", Leader, ByUser, writeVolume.and(pluginRead)}
	// VolumeList lists volumes.
	VolumeList = Method[api.VolumeListRequest, api.VolumeListResponse]{"Volume.List", Any, ByUser, listVolumes}
	// VolumeAttachments lists attachments, and mounts whose removal is not confirmed.
	VolumeAttachments = Method[api.VolumeAttachmentListRequest, api.VolumeAttachmentListResponse]{"Volume.Attachments", Any, ByUser, listVolumes}
	// VolumeGet reads one volume.
	VolumeGet = Method[api.VolumeGetRequest, api.VolumeGetResponse]{"Volume.Get", Any, ByUser, inNamespace("csi-read-volume", "csi-mount-volume", "read-job")}
	// VolumeDoctor reports what is wrong with volumes.
	VolumeDoctor = Method[api.VolumeDoctorRequest, api.VolumeDoctorResponse]{"Volume.Doctor", Any, ByUser, inNamespace("csi-read-volume", "csi-mount-volume", "read-job")}
	// VolumeRepair makes the safe repairs of a volume.
	VolumeRepair = Method[api.VolumeRepairRequest, api.VolumeRepairResponse]{"Volume.Repair", Leader, ByUser, writeVolume.and(pluginRead)}
	// VolumeTimeline reads what happened to a volume.
	VolumeTimeline = Method[api.VolumeTimelineRequest, api.VolumeTimelineResponse]{"Volume.Timeline", Any, ByUser, inNamespace("csi-read-volume", "csi-mount-volume", "read-job")}
	// VolumeClaim waits until an allocation's claim is ready.
	VolumeClaim = Method[api.VolumeClaimRequest, api.VolumeClaimResponse]{"Volume.Claim", Leader, ByNode, internal}
	// VolumeUnpublish reports that a volume is unmounted.
	VolumeUnpublish = Method[api.VolumeUnpublishRequest, api.WriteMeta]{"Volume.Unpublish", Leader, ByNode, internal}
	// VolumeConfirmIntent confirms that the intent behind a call is still the newest.
	VolumeConfirmIntent = Method[api.VolumeIntentRequest, api.Empty]{"Volume.ConfirmIntent", Leader, ByNode, internal}
	// VolumeListExternal lists the provider's volumes.
	VolumeListExternal = Method[api.VolumeExternalListRequest, api.VolumeListExternalResponse]{"Volume.ListExternal", Leader, ByUser, listVolumes}
	// VolumeSnapshotCreate makes snapshots.
	VolumeSnapshotCreate = Method[api.SnapshotCreateRequest, api.SnapshotListResponse]{"Volume.SnapshotCreate", Leader, ByUser, writeVolume.and(pluginRead)}
	// VolumeSnapshotDelete deletes a snapshot.
	VolumeSnapshotDelete = Method[api.SnapshotDeleteRequest, api.SnapshotDeleteResponse]{"Volume.SnapshotDelete", Leader, ByUser, writeVolume.and(pluginRead)}
	// VolumeSnapshotList lists the provider's snapshots.
	VolumeSnapshotList = Method[api.SnapshotListRequest, api.SnapshotListResponse]{"Volume.SnapshotList", Leader, ByUser, listVolumes}
)

// Methods of Plugin.
var (
	// PluginList lists CSI plugins.
	PluginList = Method[api.PluginListRequest, api.PluginListResponse]{"Plugin.List", Any, ByUser, on(api.OnPlugin, "list")}
	// PluginGet reads one CSI plugin.
	PluginGet = Method[api.PluginGetRequest, api.PluginGetResponse]{"Plugin.Get", Any, ByUser, pluginRead.and(seeing("read-job"))}
	// PluginDoctor calls the instances of CSI plugins and reports what is wrong with them.
	PluginDoctor = Method[api.PluginDoctorRequest, api.PluginDoctorResponse]{"Plugin.Doctor", Leader, ByUser, pluginRead.and(seeing("read-job"))}
)

// Methods of Status.
var (
	// StatusLeader returns the address of the leader.
	StatusLeader = Method[api.QueryOptions, api.StatusLeaderResponse]{"Status.Leader", Local, ByUser, open}
	// StatusPeers lists the Raft peers.
	StatusPeers = Method[api.QueryOptions, api.StatusPeersResponse]{"Status.Peers", Local, ByUser, open}
	// StatusMembers lists the servers.
	StatusMembers = Method[api.QueryOptions, api.MembersResponse]{"Status.Members", Local, ByUser, nodeRead}
	// StatusPeerInfo describes this server's log to other servers.
	StatusPeerInfo = Method[api.Empty, api.PeerInfoResponse]{"Status.PeerInfo", Local, ByServer, internal}
	// StatusJoin joins other servers by gossip.
	StatusJoin = Method[api.ServerJoinRequest, api.ServerJoinResponse]{"Status.Join", Local, ByOperator, agentWrite}
	// StatusForceLeave ejects a failed server from the gossip pool.
	StatusForceLeave = Method[api.ServerForceLeaveRequest, api.Empty]{"Status.ForceLeave", Local, ByOperator, agentWrite}
	// StatusKeyring lists or changes the gossip key ring.
	StatusKeyring = Method[api.KeyringRequest, api.KeyringResponse]{"Status.Keyring", Local, ByOperator, agentWrite}
	// StatusRegions lists the known regions.
	StatusRegions = Method[api.QueryOptions, api.RegionListResponse]{"Status.Regions", Local, ByUser, open}
)

// Methods of Namespace.
var (
	// NamespaceList lists namespaces.
	NamespaceList = Method[api.QueryOptions, api.NamespaceListResponse]{"Namespace.List", Any, ByUser, judged}
	// NamespaceGet reads one namespace.
	NamespaceGet = Method[api.NameRequest, api.NamespaceGetResponse]{"Namespace.Get", Any, ByUser, judged}
	// NamespaceUpsert creates or updates a namespace.
	NamespaceUpsert = Method[api.NamespaceUpsertRequest, api.WriteMeta]{"Namespace.Upsert", Leader, ByUser, management}
	// NamespaceDelete deletes a namespace.
	NamespaceDelete = Method[api.NameWriteRequest, api.WriteMeta]{"Namespace.Delete", Leader, ByUser, management}
)

// Methods of NodePool.
var (
	// NodePoolList lists node pools.
	NodePoolList = Method[api.QueryOptions, api.NodePoolListResponse]{"NodePool.List", Any, ByUser, inPool("read")}
	// NodePoolGet reads one node pool.
	NodePoolGet = Method[api.NameRequest, api.NodePoolGetResponse]{"NodePool.Get", Any, ByUser, inPool("read")}
	// NodePoolUpsert creates or updates a node pool.
	NodePoolUpsert = Method[api.NodePoolUpsertRequest, api.WriteMeta]{"NodePool.Upsert", Leader, ByUser, inPool("write")}
	// NodePoolDelete deletes a node pool.
	NodePoolDelete = Method[api.NameWriteRequest, api.WriteMeta]{"NodePool.Delete", Leader, ByUser, inPool("delete")}
)

// Methods of Keyring.
var (
	// KeyringList lists the root keys.
	KeyringList = Method[api.QueryOptions, api.RootKeyListResponse]{"Keyring.List", Any, ByUser, on(api.OnOperator, "read", "keyring-read")}
	// KeyringPublic lists the public halves of the root keys.
	KeyringPublic = Method[api.QueryOptions, api.JSONWebKeysResponse]{"Keyring.Public", Any, ByUser, open}
	// KeyringDiscovery reads the OpenID Connect discovery document.
	KeyringDiscovery = Method[api.QueryOptions, api.OIDCDiscoveryResponse]{"Keyring.GetConfig", Any, ByUser, open}
	// KeyringRotate makes a new active root key.
	KeyringRotate = Method[api.RootKeyRotateRequest, api.RootKeyRotateResponse]{"Keyring.Rotate", Leader, ByOperator, on(api.OnOperator, "write", "keyring-rotate")}
	// KeyringDelete forgets a root key.
	KeyringDelete = Method[api.RootKeyDeleteRequest, api.WriteMeta]{"Keyring.Delete", Leader, ByOperator, on(api.OnOperator, "write", "keyring-delete")}
	// KeyringUnlock returns to another server the key that unwraps a root key.
	KeyringUnlock = Method[api.RootKeyUnlockRequest, api.RootKeyUnlockResponse]{"Keyring.Unlock", Local, ByPeer, internal}
)

// Methods of Operator.
var (
	// OperatorSchedulerConfig reads the scheduling configuration.
	OperatorSchedulerConfig = Method[api.QueryOptions, api.SchedulerConfigResponse]{"Operator.SchedulerConfig", Any, ByUser, operatorRead}
	// OperatorSetSchedulerConfig writes the scheduling configuration.
	OperatorSetSchedulerConfig = Method[api.SchedulerConfigRequest, api.SchedulerConfigWriteResponse]{"Operator.SetSchedulerConfig", Leader, ByUser, operatorWrite}
	// OperatorRaftConfiguration lists the Raft peers.
	OperatorRaftConfiguration = Method[api.QueryOptions, api.RaftConfigurationResponse]{"Operator.RaftConfiguration", Any, ByUser, management}
	// OperatorRaftRemovePeer removes a Raft peer.
	OperatorRaftRemovePeer = Method[api.RaftPeerRequest, api.WriteMeta]{"Operator.RaftRemovePeer", Leader, ByOperator, management}
	// OperatorTransferLeadership moves the leadership to another voter.
	OperatorTransferLeadership = Method[api.RaftPeerRequest, api.LeadershipTransferResponse]{"Operator.TransferLeadership", Leader, ByOperator, management}
	// OperatorAutopilotConfig reads the autopilot's configuration.
	OperatorAutopilotConfig = Method[api.QueryOptions, api.AutopilotConfigResponse]{"Operator.AutopilotConfig", Any, ByUser, operatorRead}
	// OperatorSetAutopilotConfig writes the autopilot's configuration.
	OperatorSetAutopilotConfig = Method[api.AutopilotConfigRequest, api.AutopilotConfigWriteResponse]{"Operator.SetAutopilotConfig", Leader, ByUser, operatorWrite}
	// OperatorServerHealth returns the health of the servers.
	OperatorServerHealth = Method[api.QueryOptions, api.ServerHealthResponse]{"Operator.ServerHealth", Leader, ByUser, operatorRead}
	// OperatorSnapshotRead reads a snapshot piece by piece.
	OperatorSnapshotRead = Method[api.SnapshotReadRequest, api.SnapshotReadResponse]{"Operator.SnapshotRead", Leader, ByOperator, on(api.OnOperator, "snapshot-save")}
	// OperatorSnapshotRestore restores a snapshot that comes piece by piece.
	OperatorSnapshotRestore = Method[api.SnapshotRestoreRequest, api.SnapshotRestoreResponse]{"Operator.SnapshotRestore", Leader, ByOperator, management}
)

// Methods of System.
var (
	// SystemGC collects garbage now.
	SystemGC = Method[api.WriteRequest, api.WriteMeta]{"System.GC", Leader, ByUser, management}
	// SystemReconcile recounts job summaries.
	SystemReconcile = Method[api.WriteRequest, api.WriteMeta]{"System.Reconcile", Leader, ByUser, management}
)

// Methods of NodePlugin.
var (
	// NodePluginProbe calls the node's instances of a CSI plugin.
	NodePluginProbe = Method[api.NodePluginProbeRequest, api.NodePluginProbeResponse]{"NodePlugin.Probe", OnNode, ByServer, internal}
)

// Methods of Controller.
var (
	// ControllerValidate checks a volume's capabilities.
	ControllerValidate = Method[api.ControllerValidateRequest, api.ControllerValidateResponse]{"Controller.Validate", OnNode, ByServer, internal}
	// ControllerVerify asks what the provider knows of a volume or snapshot.
	ControllerVerify = Method[api.ControllerVerifyRequest, api.ControllerVerifyResponse]{"Controller.Verify", OnNode, ByServer, internal}
	// ControllerPublish attaches a volume to a node.
	ControllerPublish = Method[api.ControllerPublishRequest, api.ControllerPublishResponse]{"Controller.Publish", OnNode, ByServer, internal}
	// ControllerUnpublish detaches a volume from a node.
	ControllerUnpublish = Method[api.ControllerUnpublishRequest, api.Empty]{"Controller.Unpublish", OnNode, ByServer, internal}
	// ControllerCreate creates a volume.
	ControllerCreate = Method[api.ControllerCreateRequest, api.ControllerCreateResponse]{"Controller.Create", OnNode, ByServer, internal}
	// ControllerDelete deletes a volume.
	ControllerDelete = Method[api.ControllerDeleteRequest, api.Empty]{"Controller.Delete", OnNode, ByServer, internal}
	// ControllerExpand grows a volume.
	ControllerExpand = Method[api.ControllerExpandRequest, api.ControllerExpandResponse]{"Controller.Expand", OnNode, ByServer, internal}
	// ControllerList lists the provider's volumes.
	ControllerList = Method[api.ControllerListRequest, api.ControllerListResponse]{"Controller.List", OnNode, ByServer, internal}
	// ControllerSnapshot makes a snapshot.
	ControllerSnapshot = Method[api.ControllerSnapshotRequest, api.ControllerSnapshotResponse]{"Controller.Snapshot", OnNode, ByServer, internal}
	// ControllerSnapshotDelete deletes a snapshot.
	ControllerSnapshotDelete = Method[api.ControllerSnapshotDeleteRequest, api.Empty]{"Controller.SnapshotDelete", OnNode, ByServer, internal}
	// ControllerSnapshotList lists snapshots.
	ControllerSnapshotList = Method[api.ControllerSnapshotListRequest, api.ControllerSnapshotListResponse]{"Controller.SnapshotList", OnNode, ByServer, internal}
)

// Methods of NodeVolume.
var (
	// NodeVolumeExpand grows a volume's file system on its node.
	NodeVolumeExpand = Method[api.NodeVolumeExpandRequest, api.Empty]{"NodeVolume.Expand", OnNode, ByServer, internal}
	// NodeVolumeDetach unmounts a volume of one allocation.
	NodeVolumeDetach = Method[api.NodeVolumeDetachRequest, api.Empty]{"NodeVolume.Detach", OnNode, ByServer, internal}
)

// Methods of HostVolume.
var (
	// HostVolumeCreate creates a host volume on a node.
	HostVolumeCreate = Method[api.HostVolumeWriteRequest, api.HostVolumeWriteResponse]{"HostVolume.Create", Leader, ByUser, inNamespace("host-volume-create")}
	// HostVolumeRegister registers a directory of a node as a host volume.
	HostVolumeRegister = Method[api.HostVolumeWriteRequest, api.HostVolumeWriteResponse]{"HostVolume.Register", Leader, ByUser, inNamespace("host-volume-register")}
	// HostVolumeList lists host volumes.
	HostVolumeList = Method[api.HostVolumeListRequest, api.HostVolumeListResponse]{"HostVolume.List", Any, ByUser, inNamespace("host-volume-read")}
	// HostVolumeGet reads one host volume.
	HostVolumeGet = Method[api.HostVolumeGetRequest, api.HostVolumeGetResponse]{"HostVolume.Get", Any, ByUser, inNamespace("host-volume-read")}
	// HostVolumeDelete deletes a host volume.
	HostVolumeDelete = Method[api.HostVolumeDeleteRequest, api.WriteMeta]{"HostVolume.Delete", Leader, ByUser, inNamespace("host-volume-delete")}
	// HostVolumeClaims lists the claims on sticky host volumes.
	HostVolumeClaims = Method[api.HostVolumeClaimListRequest, api.HostVolumeClaimListResponse]{"TaskGroupHostVolumeClaim.List", Any, ByUser, inNamespace("host-volume-read")}
	// HostVolumeClaimDelete deletes a claim on a sticky host volume.
	HostVolumeClaimDelete = Method[api.HostVolumeClaimDeleteRequest, api.WriteMeta]{"TaskGroupHostVolumeClaim.Delete", Leader, ByUser, inNamespace("host-volume-delete")}
)

// Methods of NodeHostVolume.
var (
	// NodeHostVolumeCreate creates or registers a host volume on its node.
	NodeHostVolumeCreate = Method[api.NodeHostVolumeRequest, api.NodeHostVolumeResponse]{"NodeHostVolume.Create", OnNode, ByServer, internal}
	// NodeHostVolumeDelete deletes a host volume on its node.
	NodeHostVolumeDelete = Method[api.NodeHostVolumeRequest, api.Empty]{"NodeHostVolume.Delete", OnNode, ByServer, internal}
)

// Methods of ClientAlloc.
var (
	// ClientAllocRestart restarts tasks.
	ClientAllocRestart = Method[api.AllocRestartRequest, api.Empty]{"ClientAlloc.Restart", OnNode, ByUser, lifecycle}
	// ClientAllocSignal signals tasks.
	ClientAllocSignal = Method[api.AllocSignalRequest, api.Empty]{"ClientAlloc.Signal", OnNode, ByUser, lifecycle}
	// ClientAllocPause pauses or runs a task with a schedule.
	ClientAllocPause = Method[api.AllocPauseRequest, api.Empty]{"ClientAlloc.Pause", OnNode, ByUser, ofRow("submit-job", "pause-allocation")}
	// ClientAllocPauseState reads whether a task is paused.
	ClientAllocPauseState = Method[api.AllocPauseStateRequest, api.AllocGetPauseResponse]{"ClientAlloc.PauseState", OnNode, ByUser, readJobOfRow}
	// ClientAllocStats returns the resource usage of an allocation.
	ClientAllocStats = Method[api.AllocRequest, api.AllocStatsResponse]{"ClientAlloc.Stats", OnNode, ByUser, readJobOfRow}
	// ClientAllocChecks returns the results of the checks of an allocation.
	ClientAllocChecks = Method[api.AllocRequest, api.AllocChecksResponse]{"ClientAlloc.Checks", OnNode, ByUser, readJobOfRow}
	// ClientAllocLogs reads a piece of a log.
	ClientAllocLogs = Method[api.AllocLogsRequest, api.AllocLogsResponse]{"ClientAlloc.Logs", OnNode, ByUser, ofRow("read-logs", "read-fs")}
	// ClientAllocFileList lists a folder of an allocation.
	ClientAllocFileList = Method[api.AllocFileRequest, api.AllocFileListResponse]{"ClientAlloc.FileList", OnNode, ByUser, readFiles}
	// ClientAllocFileStat describes a file of an allocation.
	ClientAllocFileStat = Method[api.AllocFileRequest, api.AllocFileStatResponse]{"ClientAlloc.FileStat", OnNode, ByUser, readFiles}
	// ClientAllocFileRead reads a piece of a file.
	ClientAllocFileRead = Method[api.AllocFileRequest, api.AllocFileReadResponse]{"ClientAlloc.FileRead", OnNode, ByUser, readFiles}
	// ClientAllocDiskData reads a page of the data of an ended allocation.
	ClientAllocDiskData = Method[api.DiskDataRequest, api.DiskDataResponse]{"ClientAlloc.DiskData", OnNode, ByServer, internal}
	// ClientAllocGC collects one ended allocation.
	ClientAllocGC = Method[api.AllocRequest, api.Empty]{"ClientAlloc.GC", OnNode, ByUser, ofRow("submit-job", "gc-allocation")}
)

// Methods of ClientNode.
var (
	// ClientNodeStats returns the resource usage of a node.
	ClientNodeStats = Method[api.NodeRequest, api.NodeStatsResponse]{"ClientNode.Stats", OnNode, ByUser, nodeRead}
	// ClientNodeMeta reads the metadata of a node.
	ClientNodeMeta = Method[api.NodeRequest, api.NodeMetaResponse]{"NodeMeta.Read", OnNode, ByUser, nodeRead}
	// ClientNodeMetaApply changes the dynamic metadata of a node.
	ClientNodeMetaApply = Method[api.NodeMetaApplyRequest, api.NodeMetaResponse]{"NodeMeta.Apply", OnNode, ByUser, nodeWrite}
	// ClientNodeIdentity reads the claims of a node's identity.
	ClientNodeIdentity = Method[api.NodeRequest, api.NodeIdentityResponse]{"ClientNode.Identity", OnNode, ByUser, nodeRead}
	// ClientNodeIdentityRenew makes a node renew its identity.
	ClientNodeIdentityRenew = Method[api.NodeRequest, api.Empty]{"ClientNode.IdentityRenew", OnNode, ByUser, nodeWrite}
	// ClientNodeGC collects all ended allocations.
	ClientNodeGC = Method[api.NodeRequest, api.Empty]{"ClientNode.GC", OnNode, ByUser, nodeWrite}
)

// EventRead reads the events after a cursor. Any server serves it from its own buffer.
var EventRead = Method[api.EventsRequest, api.EventsResponse]{"Event.Read", Local, ByUser, judged}
