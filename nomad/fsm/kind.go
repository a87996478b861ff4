package fsm

// Kind is the number of a command in the raft log. The list is append-only: numbers are on disk.
type Kind uint16

// Kinds below KindSkippable stop a server that does not know them; the others are skipped.
const KindSkippable Kind = 0x8000

// Commands on nodes.
const (
	KindNodeRegister Kind = iota + 1
	KindNodeStatus
	KindNodeEligibility
	KindNodeDrain
	KindNodePurge
	KindNodeEvaluate
	KindNodeDrainStep
)

// Commands on jobs.
const (
	KindJobRegister Kind = iota + 20
	KindJobDeregister
	KindJobEvaluate
	KindJobStatus
	KindJobScale
	KindJobStability
	KindJobTag
	KindJobRevert
	KindJobDispatch
	KindJobLaunch
)

// Commands on evaluations, plans and allocations.
const (
	KindEvalUpdate Kind = iota + 40
	KindEvalReap
	KindPlanApply
	KindAllocUpdate
	KindAllocTransition
	KindGCReap
	KindSummariesRecount
)

// Commands on volumes.
const (
	KindVolumeRegister Kind = iota + 60
	KindVolumeIntent
	KindVolumeProvisioned
	KindVolumeDeregister
	KindVolumeDeleteBegin
	KindVolumeDeleteEnd
	KindVolumeExpandBegin
	KindVolumeExpandEnd
	KindVolumeUnpublish
	KindVolumeDetach
	KindAttachmentResult
	KindVolumeNodeExpanded
	KindVolumeClaimsReconcile
	KindSnapshotIntent
	KindSnapshotAnswer
	KindVolumeDeleteConfirm
	KindVolumeWriteOff
	KindRollbackEnd
	KindAttachmentUndo
	KindSnapshotGiveUp
	KindVolumeReseal
)

// Commands on the cluster.
const (
	KindNamespaceUpsert Kind = iota + 90
	KindNamespaceDelete
	KindNodePoolUpsert
	KindNodePoolDelete
	KindSchedulerConfig
	KindAutopilotConfig
	KindClusterID
	KindAgreeVersion
	KindRootKeyAdd
	KindRootKeyDelete
	KindRestoreMark
	KindRootKeyActivate
)

// Commands on deployments.
const (
	KindDeploymentStatus Kind = iota + 110
	KindDeploymentPromote
	KindDeploymentPause
	KindDeploymentHealth
	KindDeploymentStep
)

// Commands on access.
const (
	KindACLBootstrap Kind = iota + 130
	KindACLTokenUpsert
	KindACLTokenDelete
	KindOneTimeTokenAdd
	KindOneTimeTokenExchange
	KindACLExpire
	KindACLPolicyUpsert
	KindACLPolicyDelete
	KindACLRoleUpsert
	KindACLRoleDelete
	KindACLReplicate
)

// Commands on logins.
const (
	KindAuthMethodUpsert Kind = iota + 150
	KindAuthMethodDelete
	KindBindingRuleUpsert
	KindBindingRuleDelete
	KindLogin
)

// Commands on quotas.
const (
	KindQuotaUpsert Kind = iota + 170
	KindQuotaDelete
)

// Commands on variables.
const (
	KindVariableSet Kind = iota + 190
	KindVariableDelete
	KindVariableRelease
	KindVariableReencrypt
)

// Commands on services.
const (
	KindServiceDelete Kind = iota + 210
)

// Commands on host volumes.
const (
	KindHostVolumePut Kind = iota + 230
	KindHostVolumeDelete
	KindHostVolumeClaimDelete
)
