package jobs

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad/fsm"
)

//msgp:limit arrays:1000000 maps:1000000

// Stability marks a version as one to go back to, or not.
type Stability struct {
	Namespace string `msg:",omitempty"`
	JobID     string `msg:",omitempty"`
	Version   uint64 `msg:",omitempty"`
	Stable    bool   `msg:",omitempty"`
}

// Reversal goes back to an older version.
type Reversal struct {
	Namespace string `msg:",omitempty"`
	JobID     string `msg:",omitempty"`
	Version   uint64 `msg:",omitempty"`
	// CheckPrior goes back only if Prior is the current version.
	CheckPrior bool   `msg:",omitempty"`
	Prior      uint64 `msg:",omitempty"`
	EvalID     string `msg:",omitempty"`
	// Versions is how many versions are kept.
	Versions int `msg:",omitempty"`
}

// Tag names a version, or takes the name away with Unset.
type Tag struct {
	Namespace string `msg:",omitempty"`
	JobID     string `msg:",omitempty"`
	Name      string `msg:",omitempty"`
	Version   uint64 `msg:",omitempty"`
	// Latest means the current version.
	Latest      bool   `msg:",omitempty"`
	Description string `msg:",omitempty"`
	Unset       bool   `msg:",omitempty"`
	// Versions is how many versions are kept.
	Versions int `msg:",omitempty"`
}

// Scale changes the count of a group, or only records an event when Count is nil.
type Scale struct {
	Namespace string         `msg:",omitempty"`
	JobID     string         `msg:",omitempty"`
	Group     string         `msg:",omitempty"`
	Count     *int64         `msg:",omitempty" null:"allowed"`
	Message   string         `msg:",omitempty"`
	Error     bool           `msg:",omitempty"`
	Meta      map[string]any `msg:",omitempty"`
	// JobModifyIndex, when not 0, must be the job's.
	JobModifyIndex uint64 `msg:",omitempty"`
	EvalID         string `msg:",omitempty"`
	// CountMax bounds the sum of the groups' counts; 0 means no bound.
	CountMax int `msg:",omitempty"`
	// Versions is how many versions are kept.
	Versions int `msg:",omitempty"`
}

// Dispatch makes an instance of a parameterised job.
type Dispatch struct {
	Namespace string `msg:",omitempty"`
	JobID     string `msg:",omitempty"`
	// InstanceID is the id of the instance.
	InstanceID string `msg:",omitempty"`
	// Payload is compressed.
	Payload  []byte            `msg:",omitempty"`
	Meta     map[string]string `msg:",omitempty"`
	Token    string            `msg:",omitempty"`
	Priority int               `msg:",omitempty"`
	EvalID   string            `msg:",omitempty"`
}

// Launch makes an instance of a periodic job for the time At.
type Launch struct {
	Namespace string    `msg:",omitempty"`
	JobID     string    `msg:",omitempty"`
	At        time.Time `msg:",omitempty"`
	EvalID    string    `msg:",omitempty"`
	// Force launches out of turn: although an instance runs, and without counting as one of the times.
	Force bool `msg:",omitempty"`
}

// Kind implements [fsm.Command].
func (*Tag) Kind() fsm.Kind { return fsm.KindJobTag }

// Kind implements [fsm.Command].
func (*Scale) Kind() fsm.Kind { return fsm.KindJobScale }

// Kind implements [fsm.Command].
func (*Dispatch) Kind() fsm.Kind { return fsm.KindJobDispatch }

// Kind implements [fsm.Command].
func (*Launch) Kind() fsm.Kind { return fsm.KindJobLaunch }

// Kind implements [fsm.Command].
func (*Stability) Kind() fsm.Kind { return fsm.KindJobStability }

// Kind implements [fsm.Command].
func (*Reversal) Kind() fsm.Kind { return fsm.KindJobRevert }
