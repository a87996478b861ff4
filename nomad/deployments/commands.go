package deployments

import (
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000
//msgp:ignore Outcome

// Outcome is the result of commands on deployments.
type Outcome struct {
	// EvalID is the evaluation that carries on; empty when there is none.
	EvalID string
	// Reverted is the version that the job went back to.
	Reverted *uint64
}

// SetStatus ends a deployment when a user asks for it: as failed, or as successful when it is blocked.
type SetStatus struct {
	DeploymentID string `msg:",omitempty"`
	Status       string `msg:",omitempty"`
	EvalID       string `msg:",omitempty"`
}

// Promote lets the version of the canaries replace the other allocations, in all groups or in those named.
type Promote struct {
	DeploymentID string   `msg:",omitempty"`
	All          bool     `msg:",omitempty"`
	Groups       []string `msg:",omitempty"`
	EvalID       string   `msg:",omitempty"`
}

// Pause stops a deployment for a while, or lets it go on.
type Pause struct {
	DeploymentID string `msg:",omitempty"`
	Pause        bool   `msg:",omitempty"`
	EvalID       string `msg:",omitempty"`
}

// SetHealth sets which allocations of a deployment are healthy and which are not.
type SetHealth struct {
	DeploymentID string   `msg:",omitempty"`
	Healthy      []string `msg:",omitempty"`
	Unhealthy    []string `msg:",omitempty"`
	EvalID       string   `msg:",omitempty"`
}

// Step carries deployments on.
type Step struct {
	Moves []*Move `msg:",omitempty"`
	// Seed is what ids of evaluations are made of.
	Seed string `msg:",omitempty"`
}

// Move is the step of one deployment. What else is to be done is found when it is applied.
type Move struct {
	DeploymentID string `msg:",omitempty"`
	// Evaluate is set when allocations became healthy: the next may follow.
	Evaluate bool `msg:",omitempty"`
}

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &SetStatus{} })
	r.Register(func() fsm.Command { return &Promote{} })
	r.Register(func() fsm.Command { return &Pause{} })
	r.Register(func() fsm.Command { return &SetHealth{} })
	r.Register(func() fsm.Command { return &Step{} })
}

// Kind implements [fsm.Command].
func (*SetStatus) Kind() fsm.Kind { return fsm.KindDeploymentStatus }

// Kind implements [fsm.Command].
func (*Promote) Kind() fsm.Kind { return fsm.KindDeploymentPromote }

// Kind implements [fsm.Command].
func (*Pause) Kind() fsm.Kind { return fsm.KindDeploymentPause }

// Kind implements [fsm.Command].
func (*SetHealth) Kind() fsm.Kind { return fsm.KindDeploymentHealth }

// Kind implements [fsm.Command].
func (*Step) Kind() fsm.Kind { return fsm.KindDeploymentStep }
