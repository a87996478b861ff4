package api

// SchedulerConfiguration is the cluster-wide scheduling configuration.
type SchedulerConfiguration struct {
	SchedulerAlgorithm            SchedulerAlgorithm `msg:",omitempty"`
	PreemptionConfig              PreemptionConfig   `msg:",omitempty"`
	MemoryOversubscriptionEnabled bool               `msg:",omitempty"`
	RejectJobRegistration         bool               `msg:",omitempty"`
	PauseEvalBroker               bool               `msg:",omitempty"`
	NodeLimitForFeasibilityChecks uint               `msg:",omitempty"`
	CreateIndex                   uint64             `msg:",omitempty"`
	ModifyIndex                   uint64             `msg:",omitempty"`
}

// PreemptionConfig switches preemption per scheduler.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool `msg:",omitempty"`
	SysBatchSchedulerEnabled bool `msg:",omitempty"`
	BatchSchedulerEnabled    bool `msg:",omitempty"`
	ServiceSchedulerEnabled  bool `msg:",omitempty"`
}

// RaftConfiguration lists the Raft peers.
type RaftConfiguration struct {
	Servers []*RaftServer `msg:",omitempty"`
	Index   uint64        `msg:",omitempty"`
}

// RaftServer is one Raft peer.
type RaftServer struct {
	ID           string `msg:",omitempty"`
	Node         string `msg:",omitempty"`
	Address      string `msg:",omitempty"`
	Leader       bool   `msg:",omitempty"`
	Voter        bool   `msg:",omitempty"`
	RaftProtocol string `msg:",omitempty"`
}
