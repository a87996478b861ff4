package api

// Client status of an allocation, as its node reports it.
const (
	AllocClientStatusComplete = "complete"
	AllocClientStatusFailed   = "failed"
	AllocClientStatusLost     = "lost"
	AllocClientStatusPending  = "pending"
	AllocClientStatusRunning  = "running"
	AllocClientStatusUnknown  = "unknown"
)

// Desired status of an allocation: what the servers want.
const (
	AllocDesiredStatusEvict = "evict"
	AllocDesiredStatusRun   = "run"
	AllocDesiredStatusStop  = "stop"
)

// Evaluation statuses.
const (
	EvalStatusBlocked   = "blocked"
	EvalStatusCancelled = "canceled"
	EvalStatusComplete  = "complete"
	EvalStatusFailed    = "failed"
	EvalStatusPending   = "pending"
)

// Job types.
const (
	JobTypeBatch    = "batch"
	JobTypeService  = "service"
	JobTypeSysbatch = "sysbatch"
	JobTypeSystem   = "system"
)

// Node statuses.
const (
	NodeStatusDisconnected = "disconnected"
	NodeStatusDown         = "down"
	NodeStatusInit         = "initializing"
	NodeStatusReady        = "ready"
)

// Scheduling eligibility of a node.
const (
	NodeSchedulingEligible   = "eligible"
	NodeSchedulingIneligible = "ineligible"
)

// Subsystems of node events.
const (
	NodeEventSubsystemCluster   = "Cluster"
	NodeEventSubsystemDrain     = "Drain"
	NodeEventSubsystemDriver    = "Driver"
	NodeEventSubsystemHeartbeat = "Heartbeat"
)

// Deployment statuses.
const (
	DeploymentStatusBlocked    = "blocked"
	DeploymentStatusCancelled  = "cancelled"
	DeploymentStatusFailed     = "failed"
	DeploymentStatusPaused     = "paused"
	DeploymentStatusPending    = "pending"
	DeploymentStatusRunning    = "running"
	DeploymentStatusSuccessful = "successful"
	DeploymentStatusUnblocking = "unblocking"
)

// Kinds of CSI plugins.
const (
	CSIPluginTypeController = "controller"
	CSIPluginTypeMonolith   = "monolith"
	CSIPluginTypeNode       = "node"
)

// Constraint operands that are words.
const (
	ConstraintAttributeIsNotSet = "is_not_set"
	ConstraintAttributeIsSet    = "is_set"
	ConstraintDistinctHosts     = "distinct_hosts"
	ConstraintDistinctProperty  = "distinct_property"
	ConstraintRegex             = "regexp"
	ConstraintSemver            = "semver"
	ConstraintSetContains       = "set_contains"
	ConstraintSetContainsAll    = "set_contains_all"
	ConstraintSetContainsAny    = "set_contains_any"
	ConstraintVersion           = "version"
)

// Modes of a restart policy after its attempts are used up.
const (
	RestartPolicyModeDelay = "delay"
	RestartPolicyModeFail  = "fail"
)

// Outcomes of a drain.
const (
	DrainStatusCanceled DrainStatus = "canceled"
	DrainStatusComplete DrainStatus = "complete"
	DrainStatusDraining DrainStatus = "draining"
)

// Placement algorithms.
const (
	SchedulerAlgorithmBinpack SchedulerAlgorithm = "binpack"
	SchedulerAlgorithmSpread  SchedulerAlgorithm = "spread"
)

// Ways to choose between a returned allocation and its replacement.
const (
	ReconcileOptionBestScore       ReconcileOption = "best_score"
	ReconcileOptionKeepOriginal    ReconcileOption = "keep_original"
	ReconcileOptionKeepReplacement ReconcileOption = "keep_replacement"
	ReconcileOptionLongestRunning  ReconcileOption = "longest_running"
)

// Propagation modes of a volume mount.
const (
	VolumeMountPropagationBidirectional = "bidirectional"
	VolumeMountPropagationHostToTask    = "host-to-task"
	VolumeMountPropagationPrivate       = "private"
)

// Hooks of a task life cycle.
const (
	TaskLifecycleHookPoststart = "poststart"
	TaskLifecycleHookPoststop  = "poststop"
	TaskLifecycleHookPrestart  = "prestart"
)

// Task event types, as users read them.
const (
	EventArtifactDownloadFailed = "Failed Artifact Download"
	EventBuildingTaskDir        = "Building Task Directory"
	EventClientReconnected      = "Reconnected"
	EventDownloadingArtifacts   = "Downloading Artifacts"
	EventDriverFailure          = "Driver Failure"
	EventFailedValidation       = "Failed Validation"
	EventKilled                 = "Killed"
	EventKilling                = "Killing"
	EventLeaderDead             = "Leader Task Dead"
	EventMainDead               = "Main Tasks Dead"
	EventNotRestarting          = "Not Restarting"
	EventReceived               = "Received"
	EventRestartSignal          = "Restart Signaled"
	EventRestarting             = "Restarting"
	EventSetup                  = "Task Setup"
	EventSetupFailure           = "Setup Failure"
	EventSiblingFailed          = "Sibling Task Failed"
	EventSignaling              = "Signaling"
	EventStarted                = "Started"
	EventTerminated             = "Terminated"
	EventPluginHealthy          = "Plugin became healthy"
	EventPluginUnhealthy        = "Plugin became unhealthy"
	EventSignaled               = "Signaling"
	EventPausing                = "Pausing"
	EventRunning                = "Running"
)

// States of [TaskState.Paused]; empty means that the task runs as its schedule says, or has none.
const (
	PausedBySchedule = "sched_pause"
	PausedByUser     = "force_pause"
	RunByUser        = "force_run"
)

// What a user wants of a task with a schedule.
const (
	SchedulePause     = "pause"
	ScheduleRun       = "run"
	ScheduleScheduled = "scheduled"
)

// Names with a fixed meaning.
const (
	DefaultNamespace   = "default"
	AllNamespaces      = "*"
	GlobalRegion       = "global"
	NodePoolDefault    = "default"
	NodePoolAll        = "all"
	VolumeTypeCSI      = "csi"
	VolumeTypeHost     = "host"
	JobDefaultPriority = 50
	JobDispatchInfix   = "/dispatch-"
	JobPeriodicInfix   = "/periodic-"
	LogStdout          = "stdout"
	LogStderr          = "stderr"
	OriginStart        = "start"
	OriginEnd          = "end"
)

// Job statuses.
const (
	JobStatusPending = "pending"
	JobStatusRunning = "running"
	JobStatusDead    = "dead"
)

// Task states.
const (
	TaskStatePending = "pending"
	TaskStateRunning = "running"
	TaskStateDead    = "dead"
)

// What triggered an evaluation.
const (
	TriggerJobRegister          = "job-register"
	TriggerJobDeregister        = "job-deregister"
	TriggerPeriodicJob          = "periodic-job"
	TriggerNodeDrain            = "node-drain"
	TriggerNodeUpdate           = "node-update"
	TriggerAllocStop            = "alloc-stop"
	TriggerScheduled            = "scheduled"
	TriggerRollingUpdate        = "rolling-update"
	TriggerDeploymentWatcher    = "deployment-watcher"
	TriggerFailedFollowUp       = "failed-follow-up"
	TriggerMaxPlans             = "max-plan-attempts"
	TriggerRetryFailedAlloc     = "alloc-failure"
	TriggerQueuedAllocs         = "queued-allocs"
	TriggerReschedule           = "alloc-reschedule"
	TriggerPreemption           = "preemption"
	TriggerScaling              = "job-scaling"
	TriggerMaxDisconnectTimeout = "max-disconnect-timeout"
	TriggerReconnect            = "reconnect"
)

// CoreJobPriority is the priority of internal evaluations.
const CoreJobPriority = 32767

// Compatible is the release whose surface this program has. Constraints and tools of users ask for it.
const Compatible = "2.0.0"
