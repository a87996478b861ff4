package wire

import "github.com/open-nomad/open-nomad/api"

// heavy are the methods that compute for up to seconds and wait for nothing.
var heavy = map[string]bool{JobPlan.Name: true, JobValidate.Name: true}

// Methods of Node.
var (
	// NodeRegister registers a node or updates its fingerprint.
	NodeRegister = Method[api.NodeRegisterRequest, api.NodeUpdateResponse]{"Node.Register", Leader, ByNode}
	// NodeHeartbeat renews the lease of a node.
	NodeHeartbeat = Method[api.NodeHeartbeatRequest, api.NodeUpdateResponse]{"Node.Heartbeat", Leader, ByNode}
	// NodeAssignments blocks until the node's allocations change.
	NodeAssignments = Method[api.NodeAssignmentsRequest, api.NodeAssignmentsResponse]{"Node.Assignments", Any, ByNode}
	// NodeUpdateAllocs reports the client half of allocations.
	NodeUpdateAllocs = Method[api.AllocUpdateRequest, api.WriteMeta]{"Node.UpdateAllocs", Leader, ByNode}
	// NodeList lists nodes.
	NodeList = Method[api.NodeListRequest, api.NodeListResponse]{"Node.List", Any, ByUser}
	// NodeGet reads one node.
	NodeGet = Method[api.NodeRequest, api.NodeGetResponse]{"Node.Get", Any, ByUser}
	// NodeAllocations lists the allocations of a node.
	NodeAllocations = Method[api.NodeRequest, api.AllocFullListResponse]{"Node.Allocations", Any, ByUser}
	// NodeEligibility makes a node eligible or not.
	NodeEligibility = Method[api.NodeEligibilityRequest, api.NodeWriteResponse]{"Node.Eligibility", Leader, ByUser}
	// NodeDrain starts or ends a drain.
	NodeDrain = Method[api.NodeDrainRequest, api.NodeWriteResponse]{"Node.Drain", Leader, ByUser}
	// NodeEvaluate evaluates all jobs of a node.
	NodeEvaluate = Method[api.NodeWriteRequest, api.NodeWriteResponse]{"Node.Evaluate", Leader, ByUser}
	// NodePurge forgets a node.
	NodePurge = Method[api.NodeWriteRequest, api.NodeWriteResponse]{"Node.Purge", Leader, ByUser}
	// NodeRelay passes a call on to a node that is connected to the asked server.
	NodeRelay = Method[api.RelayRequest, api.RelayResponse]{"Node.Relay", Local, ByServer}
	// NodeCall forwards a user's call of ClientAlloc or ClientNode to a node.
	NodeCall = Method[api.NodeCallRequest, api.RelayResponse]{"Node.Call", Local, ByUser}
)

// Methods of Job.
var (
	// JobRegister registers a job.
	JobRegister = Method[api.JobRegisterRequest, api.JobRegisterResponse]{"Job.Register", Leader, ByUser}
	// JobValidate checks a job.
	JobValidate = Method[api.JobValidateRequest, api.JobValidateResponse]{"Job.Validate", Leader, ByUser}
	// JobPlan returns what a registration would change.
	JobPlan = Method[api.JobPlanRequest, api.JobPlanResponse]{"Job.Plan", Leader, ByUser}
	// JobDeregister stops or purges a job.
	JobDeregister = Method[api.JobDeregisterRequest, api.JobRegisterResponse]{"Job.Deregister", Leader, ByUser}
	// JobEvaluate evaluates a job.
	JobEvaluate = Method[api.JobEvaluateRequest, api.JobRegisterResponse]{"Job.Evaluate", Leader, ByUser}
	// JobList lists jobs.
	JobList = Method[api.JobListRequest, api.JobListResponse]{"Job.List", Any, ByUser}
	// JobGet reads one job.
	JobGet = Method[api.JobRequest, api.JobGetResponse]{"Job.Get", Any, ByUser}
	// JobVersions lists the versions of a job.
	JobVersions = Method[api.JobVersionsRequest, api.JobVersionsResponse]{"Job.Versions", Any, ByUser}
	// JobSubmission reads the source of a job.
	JobSubmission = Method[api.JobRequest, api.JobSubmissionResponse]{"Job.Submission", Any, ByUser}
	// JobSummary counts a job's allocations.
	JobSummary = Method[api.JobRequest, api.JobSummaryResponse]{"Job.Summary", Any, ByUser}
	// JobAllocations lists a job's allocations.
	JobAllocations = Method[api.JobRequest, api.AllocListResponse]{"Job.Allocations", Any, ByUser}
	// JobEvaluations lists a job's evaluations.
	JobEvaluations = Method[api.JobRequest, api.EvalListResponse]{"Job.Evaluations", Any, ByUser}
	// JobDeployments lists a job's deployments.
	JobDeployments = Method[api.JobRequest, api.JobDeploymentsResponse]{"Job.Deployments", Any, ByUser}
	// JobDeployment reads a job's newest deployment.
	JobDeployment = Method[api.JobRequest, api.JobDeploymentResponse]{"Job.Deployment", Any, ByUser}
	// JobRevert goes back to an older version.
	JobRevert = Method[api.JobRevertRequest, api.JobRegisterResponse]{"Job.Revert", Leader, ByUser}
	// JobStable marks a version as stable.
	JobStable = Method[api.JobStabilityRequest, api.JobStabilityResponse]{"Job.Stable", Leader, ByUser}
	// JobTag names a version.
	JobTag = Method[api.JobTagRequest, api.JobTagResponse]{"Job.Tag", Leader, ByUser}
	// JobScale changes the count of a group.
	JobScale = Method[api.JobScaleRequest, api.JobRegisterResponse]{"Job.Scale", Leader, ByUser}
	// JobScaleStatus reads what scaling a job looks like.
	JobScaleStatus = Method[api.JobRequest, api.JobScaleStatusResponse]{"Job.ScaleStatus", Any, ByUser}
	// JobDispatch runs an instance of a parameterised job.
	JobDispatch = Method[api.JobDispatchRequest, api.JobDispatchResponse]{"Job.Dispatch", Leader, ByUser}
	// JobPeriodicForce launches a periodic job out of turn.
	JobPeriodicForce = Method[api.JobRequest, api.PeriodicForceResponse]{"Job.PeriodicForce", Leader, ByUser}
	// ScalingPolicyList lists scaling policies.
	ScalingPolicyList = Method[api.ScalingPolicyListRequest, api.ScalingPolicyListResponse]{"Scaling.List", Any, ByUser}
	// ScalingPolicyGet reads one scaling policy.
	ScalingPolicyGet = Method[api.NameRequest, api.ScalingPolicyGetResponse]{"Scaling.Get", Any, ByUser}
)

// Methods of Eval.
var (
	// EvalList lists evaluations.
	EvalList = Method[api.EvalListRequest, api.EvalListResponse]{"Eval.List", Any, ByUser}
	// EvalGet reads one evaluation.
	EvalGet = Method[api.EvalRequest, api.EvalGetResponse]{"Eval.Get", Any, ByUser}
	// EvalAllocations lists an evaluation's allocations.
	EvalAllocations = Method[api.EvalRequest, api.AllocListResponse]{"Eval.Allocations", Any, ByUser}
	// EvalCount counts evaluations.
	EvalCount = Method[api.EvalListRequest, api.EvalCountResponse]{"Eval.Count", Any, ByUser}
	// EvalDelete deletes evaluations.
	EvalDelete = Method[api.EvalDeleteRequest, api.EvalDeleteResponse]{"Eval.Delete", Leader, ByUser}
	// EvalDequeue hands work to a server's worker.
	EvalDequeue = Method[api.EvalDequeueRequest, api.EvalDequeueResponse]{"Eval.Dequeue", Leader, ByServer}
	// EvalAck reports the outcome of an evaluation.
	EvalAck = Method[api.EvalAckRequest, api.Empty]{"Eval.Ack", Leader, ByServer}
	// EvalUpdate writes processed evaluations.
	EvalUpdate = Method[api.EvalUpdateRequest, api.WriteMeta]{"Eval.Update", Leader, ByServer}
	// PlanSubmit commits a worker's plan.
	PlanSubmit = Method[api.PlanSubmitRequest, api.PlanSubmitResponse]{"Plan.Submit", Leader, ByServer}
)

// Methods of Alloc.
var (
	// AllocList lists allocations.
	AllocList = Method[api.AllocListRequest, api.AllocRowsResponse]{"Alloc.List", Any, ByUser}
	// AllocGet reads one allocation.
	AllocGet = Method[api.AllocRequest, api.AllocGetResponse]{"Alloc.Get", Any, ByUser}
	// AllocStop stops an allocation.
	AllocStop = Method[api.AllocStopRequest, api.AllocStopResponse]{"Alloc.Stop", Leader, ByUser}
)

// Methods of Deployment.
var (
	// DeploymentList lists deployments.
	DeploymentList = Method[api.QueryOptions, api.DeploymentListResponse]{"Deployment.List", Any, ByUser}
	// DeploymentGet reads one deployment.
	DeploymentGet = Method[api.DeploymentRequest, api.DeploymentGetResponse]{"Deployment.Get", Any, ByUser}
	// DeploymentAllocations lists a deployment's allocations.
	DeploymentAllocations = Method[api.DeploymentRequest, api.AllocListResponse]{"Deployment.Allocations", Any, ByUser}
	// DeploymentFail fails a deployment.
	DeploymentFail = Method[api.DeploymentWriteRequest, api.DeploymentUpdateResponse]{"Deployment.Fail", Leader, ByUser}
	// DeploymentPause pauses or resumes a deployment.
	DeploymentPause = Method[api.DeploymentPauseRequest, api.DeploymentUpdateResponse]{"Deployment.Pause", Leader, ByUser}
	// DeploymentPromote promotes canaries.
	DeploymentPromote = Method[api.DeploymentPromoteRequest, api.DeploymentUpdateResponse]{"Deployment.Promote", Leader, ByUser}
	// DeploymentAllocHealth sets the health of allocations by hand.
	DeploymentAllocHealth = Method[api.DeploymentAllocHealthRequest, api.DeploymentUpdateResponse]{"Deployment.AllocHealth", Leader, ByUser}
	// DeploymentUnblock lets a blocked multi-region deployment end.
	DeploymentUnblock = Method[api.DeploymentWriteRequest, api.DeploymentUpdateResponse]{"Deployment.Unblock", Leader, ByUser}
)

// Methods of Volume.
var (
	// VolumeRegister registers existing volumes.
	VolumeRegister = Method[api.VolumeRegisterRequest, api.VolumeWriteResponse]{"Volume.Register", Leader, ByUser}
	// VolumeCreate creates volumes at the provider.
	VolumeCreate = Method[api.VolumeCreateRequest, api.VolumeWriteResponse]{"Volume.Create", Leader, ByUser}
	// VolumeDeregister forgets a volume.
	VolumeDeregister = Method[api.VolumeDeregisterRequest, api.WriteMeta]{"Volume.Deregister", Leader, ByUser}
	// VolumeDelete deletes a volume at the provider.
	VolumeDelete = Method[api.VolumeDeleteRequest, api.WriteMeta]{"Volume.Delete", Leader, ByUser}
	// VolumeDetach releases a volume from a node.
	VolumeDetach = Method[api.VolumeDetachRequest, api.VolumeDetachResponse]{"Volume.Detach", Leader, ByUser}
	// VolumeList lists volumes.
	VolumeList = Method[api.VolumeListRequest, api.VolumeListResponse]{"Volume.List", Any, ByUser}
	// VolumeAttachments lists attachments, and mounts whose removal is not confirmed.
	VolumeAttachments = Method[api.VolumeAttachmentListRequest, api.VolumeAttachmentListResponse]{"Volume.Attachments", Any, ByUser}
	// VolumeGet reads one volume.
	VolumeGet = Method[api.VolumeGetRequest, api.VolumeGetResponse]{"Volume.Get", Any, ByUser}
	// VolumeClaim waits until an allocation's claim is ready.
	VolumeClaim = Method[api.VolumeClaimRequest, api.VolumeClaimResponse]{"Volume.Claim", Leader, ByNode}
	// VolumeUnpublish reports that a volume is unmounted.
	VolumeUnpublish = Method[api.VolumeUnpublishRequest, api.WriteMeta]{"Volume.Unpublish", Leader, ByNode}
	// VolumeConfirmIntent confirms that the intent behind a call is still the newest.
	VolumeConfirmIntent = Method[api.VolumeIntentRequest, api.Empty]{"Volume.ConfirmIntent", Leader, ByNode}
	// VolumeListExternal lists the provider's volumes.
	VolumeListExternal = Method[api.VolumeExternalListRequest, api.VolumeListExternalResponse]{"Volume.ListExternal", Leader, ByUser}
	// VolumeSnapshotCreate makes snapshots.
	VolumeSnapshotCreate = Method[api.SnapshotCreateRequest, api.SnapshotListResponse]{"Volume.SnapshotCreate", Leader, ByUser}
	// VolumeSnapshotDelete deletes a snapshot.
	VolumeSnapshotDelete = Method[api.SnapshotDeleteRequest, api.SnapshotDeleteResponse]{"Volume.SnapshotDelete", Leader, ByUser}
	// VolumeSnapshotList lists the provider's snapshots.
	VolumeSnapshotList = Method[api.SnapshotListRequest, api.SnapshotListResponse]{"Volume.SnapshotList", Leader, ByUser}
)

// Methods of Plugin.
var (
	// PluginList lists CSI plugins.
	PluginList = Method[api.PluginListRequest, api.PluginListResponse]{"Plugin.List", Any, ByUser}
	// PluginGet reads one CSI plugin.
	PluginGet = Method[api.PluginGetRequest, api.PluginGetResponse]{"Plugin.Get", Any, ByUser}
	// PluginRenamed records that a plugin's driver was renamed.
	PluginRenamed = Method[api.PluginRenamedRequest, api.WriteMeta]{"Plugin.Renamed", Leader, ByUser}
)

// Methods of Status.
var (
	// StatusLeader returns the address of the leader.
	StatusLeader = Method[api.QueryOptions, api.StatusLeaderResponse]{"Status.Leader", Local, ByUser}
	// StatusPeers lists the Raft peers.
	StatusPeers = Method[api.QueryOptions, api.StatusPeersResponse]{"Status.Peers", Local, ByUser}
	// StatusMembers lists the servers.
	StatusMembers = Method[api.QueryOptions, api.MembersResponse]{"Status.Members", Local, ByUser}
	// StatusPeerInfo describes this server's log to other servers.
	StatusPeerInfo = Method[api.Empty, api.PeerInfoResponse]{"Status.PeerInfo", Local, ByServer}
	// StatusJoin joins other servers by gossip.
	StatusJoin = Method[api.ServerJoinRequest, api.ServerJoinResponse]{"Status.Join", Local, ByOperator}
	// StatusForceLeave ejects a failed server from the gossip pool.
	StatusForceLeave = Method[api.ServerForceLeaveRequest, api.Empty]{"Status.ForceLeave", Local, ByOperator}
	// StatusKeyring lists or changes the gossip key ring.
	StatusKeyring = Method[api.KeyringRequest, api.KeyringResponse]{"Status.Keyring", Local, ByOperator}
	// StatusRegions lists the known regions.
	StatusRegions = Method[api.QueryOptions, api.RegionListResponse]{"Status.Regions", Local, ByUser}
)

// Methods of Namespace.
var (
	// NamespaceList lists namespaces.
	NamespaceList = Method[api.QueryOptions, api.NamespaceListResponse]{"Namespace.List", Any, ByUser}
	// NamespaceGet reads one namespace.
	NamespaceGet = Method[api.NameRequest, api.NamespaceGetResponse]{"Namespace.Get", Any, ByUser}
	// NamespaceUpsert creates or updates a namespace.
	NamespaceUpsert = Method[api.NamespaceUpsertRequest, api.WriteMeta]{"Namespace.Upsert", Leader, ByUser}
	// NamespaceDelete deletes a namespace.
	NamespaceDelete = Method[api.NameWriteRequest, api.WriteMeta]{"Namespace.Delete", Leader, ByUser}
)

// Methods of NodePool.
var (
	// NodePoolList lists node pools.
	NodePoolList = Method[api.QueryOptions, api.NodePoolListResponse]{"NodePool.List", Any, ByUser}
	// NodePoolGet reads one node pool.
	NodePoolGet = Method[api.NameRequest, api.NodePoolGetResponse]{"NodePool.Get", Any, ByUser}
	// NodePoolUpsert creates or updates a node pool.
	NodePoolUpsert = Method[api.NodePoolUpsertRequest, api.WriteMeta]{"NodePool.Upsert", Leader, ByUser}
	// NodePoolDelete deletes a node pool.
	NodePoolDelete = Method[api.NameWriteRequest, api.WriteMeta]{"NodePool.Delete", Leader, ByUser}
)

// Methods of Keyring.
var (
	// KeyringList lists the root keys.
	KeyringList = Method[api.QueryOptions, api.RootKeyListResponse]{"Keyring.List", Any, ByUser}
	// KeyringPublic lists the public halves of the root keys.
	KeyringPublic = Method[api.QueryOptions, api.JSONWebKeysResponse]{"Keyring.Public", Any, ByUser}
	// KeyringRotate makes a new active root key.
	KeyringRotate = Method[api.RootKeyRotateRequest, api.RootKeyRotateResponse]{"Keyring.Rotate", Leader, ByOperator}
	// KeyringDelete forgets a root key.
	KeyringDelete = Method[api.RootKeyDeleteRequest, api.WriteMeta]{"Keyring.Delete", Leader, ByOperator}
	// KeyringUnlock returns to another server the key that unwraps a root key.
	KeyringUnlock = Method[api.RootKeyUnlockRequest, api.RootKeyUnlockResponse]{"Keyring.Unlock", Local, ByPeer}
)

// Methods of Operator.
var (
	// OperatorSchedulerConfig reads the scheduling configuration.
	OperatorSchedulerConfig = Method[api.QueryOptions, api.SchedulerConfigResponse]{"Operator.SchedulerConfig", Any, ByUser}
	// OperatorSetSchedulerConfig writes the scheduling configuration.
	OperatorSetSchedulerConfig = Method[api.SchedulerConfigRequest, api.SchedulerConfigWriteResponse]{"Operator.SetSchedulerConfig", Leader, ByUser}
	// OperatorRaftConfiguration lists the Raft peers.
	OperatorRaftConfiguration = Method[api.QueryOptions, api.RaftConfigurationResponse]{"Operator.RaftConfiguration", Any, ByUser}
	// OperatorRaftRemovePeer removes a Raft peer.
	OperatorRaftRemovePeer = Method[api.RaftPeerRequest, api.WriteMeta]{"Operator.RaftRemovePeer", Leader, ByOperator}
	// OperatorTransferLeadership moves the leadership to another voter.
	OperatorTransferLeadership = Method[api.RaftPeerRequest, api.LeadershipTransferResponse]{"Operator.TransferLeadership", Leader, ByOperator}
	// OperatorAutopilotConfig reads the autopilot's configuration.
	OperatorAutopilotConfig = Method[api.QueryOptions, api.AutopilotConfigResponse]{"Operator.AutopilotConfig", Any, ByUser}
	// OperatorSetAutopilotConfig writes the autopilot's configuration.
	OperatorSetAutopilotConfig = Method[api.AutopilotConfigRequest, api.AutopilotConfigWriteResponse]{"Operator.SetAutopilotConfig", Leader, ByUser}
	// OperatorServerHealth returns the health of the servers.
	OperatorServerHealth = Method[api.QueryOptions, api.ServerHealthResponse]{"Operator.ServerHealth", Leader, ByUser}
	// OperatorSnapshotRead reads a snapshot piece by piece.
	OperatorSnapshotRead = Method[api.SnapshotReadRequest, api.SnapshotReadResponse]{"Operator.SnapshotRead", Leader, ByOperator}
	// OperatorSnapshotRestore restores a snapshot that comes piece by piece.
	OperatorSnapshotRestore = Method[api.SnapshotRestoreRequest, api.SnapshotRestoreResponse]{"Operator.SnapshotRestore", Leader, ByOperator}
)

// Methods of System.
var (
	// SystemGC collects garbage now.
	SystemGC = Method[api.WriteRequest, api.WriteMeta]{"System.GC", Leader, ByUser}
	// SystemReconcile recounts job summaries.
	SystemReconcile = Method[api.WriteRequest, api.WriteMeta]{"System.Reconcile", Leader, ByUser}
)

// Methods of Controller.
var (
	// ControllerValidate checks a volume's capabilities.
	ControllerValidate = Method[api.ControllerValidateRequest, api.ControllerValidateResponse]{"Controller.Validate", OnNode, ByServer}
	// ControllerVerify asks what the provider knows of a volume or snapshot.
	ControllerVerify = Method[api.ControllerVerifyRequest, api.ControllerVerifyResponse]{"Controller.Verify", OnNode, ByServer}
	// ControllerPublish attaches a volume to a node.
	ControllerPublish = Method[api.ControllerPublishRequest, api.ControllerPublishResponse]{"Controller.Publish", OnNode, ByServer}
	// ControllerUnpublish detaches a volume from a node.
	ControllerUnpublish = Method[api.ControllerUnpublishRequest, api.Empty]{"Controller.Unpublish", OnNode, ByServer}
	// ControllerCreate creates a volume.
	ControllerCreate = Method[api.ControllerCreateRequest, api.ControllerCreateResponse]{"Controller.Create", OnNode, ByServer}
	// ControllerDelete deletes a volume.
	ControllerDelete = Method[api.ControllerDeleteRequest, api.Empty]{"Controller.Delete", OnNode, ByServer}
	// ControllerExpand grows a volume.
	ControllerExpand = Method[api.ControllerExpandRequest, api.ControllerExpandResponse]{"Controller.Expand", OnNode, ByServer}
	// ControllerList lists the provider's volumes.
	ControllerList = Method[api.ControllerListRequest, api.ControllerListResponse]{"Controller.List", OnNode, ByServer}
	// ControllerSnapshot makes a snapshot.
	ControllerSnapshot = Method[api.ControllerSnapshotRequest, api.ControllerSnapshotResponse]{"Controller.Snapshot", OnNode, ByServer}
	// ControllerSnapshotDelete deletes a snapshot.
	ControllerSnapshotDelete = Method[api.ControllerSnapshotDeleteRequest, api.Empty]{"Controller.SnapshotDelete", OnNode, ByServer}
	// ControllerSnapshotList lists snapshots.
	ControllerSnapshotList = Method[api.ControllerSnapshotListRequest, api.ControllerSnapshotListResponse]{"Controller.SnapshotList", OnNode, ByServer}
)

// Methods of NodeVolume.
var (
	// NodeVolumeExpand grows a volume's file system on its node.
	NodeVolumeExpand = Method[api.NodeVolumeExpandRequest, api.Empty]{"NodeVolume.Expand", OnNode, ByServer}
	// NodeVolumeDetach unmounts a volume of one allocation.
	NodeVolumeDetach = Method[api.NodeVolumeDetachRequest, api.Empty]{"NodeVolume.Detach", OnNode, ByServer}
)

// Methods of ClientAlloc.
var (
	// ClientAllocRestart restarts tasks.
	ClientAllocRestart = Method[api.AllocRestartRequest, api.Empty]{"ClientAlloc.Restart", OnNode, ByUser}
	// ClientAllocSignal signals tasks.
	ClientAllocSignal = Method[api.AllocSignalRequest, api.Empty]{"ClientAlloc.Signal", OnNode, ByUser}
	// ClientAllocStats returns the resource usage of an allocation.
	ClientAllocStats = Method[api.AllocRequest, api.AllocStatsResponse]{"ClientAlloc.Stats", OnNode, ByUser}
	// ClientAllocLogs reads a piece of a log.
	ClientAllocLogs = Method[api.AllocLogsRequest, api.AllocLogsResponse]{"ClientAlloc.Logs", OnNode, ByUser}
	// ClientAllocFileList lists a folder of an allocation.
	ClientAllocFileList = Method[api.AllocFileRequest, api.AllocFileListResponse]{"ClientAlloc.FileList", OnNode, ByUser}
	// ClientAllocFileStat describes a file of an allocation.
	ClientAllocFileStat = Method[api.AllocFileRequest, api.AllocFileStatResponse]{"ClientAlloc.FileStat", OnNode, ByUser}
	// ClientAllocFileRead reads a piece of a file.
	ClientAllocFileRead = Method[api.AllocFileRequest, api.AllocFileReadResponse]{"ClientAlloc.FileRead", OnNode, ByUser}
	// ClientAllocGC collects one ended allocation.
	ClientAllocGC = Method[api.AllocRequest, api.Empty]{"ClientAlloc.GC", OnNode, ByUser}
)

// Methods of ClientNode.
var (
	// ClientNodeStats returns the resource usage of a node.
	ClientNodeStats = Method[api.NodeRequest, api.NodeStatsResponse]{"ClientNode.Stats", OnNode, ByUser}
	// ClientNodeGC collects all ended allocations.
	ClientNodeGC = Method[api.NodeRequest, api.Empty]{"ClientNode.GC", OnNode, ByUser}
)
