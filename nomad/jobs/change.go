package jobs

import "github.com/open-nomad/open-nomad/nomad/fsm"

//go:generate go tool -modfile=../../tools/go.mod msgp -o zz_change_msgp.go -tests=false -io=false -file change.go

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

// Kind implements [fsm.Command].
func (*Stability) Kind() fsm.Kind { return fsm.KindJobStability }

// Kind implements [fsm.Command].
func (*Reversal) Kind() fsm.Kind { return fsm.KindJobRevert }
