package api

// EvalListRequest lists evaluations, optionally of one job or with one status.
type EvalListRequest struct {
	JobID  string `msg:",omitempty"`
	Status string `msg:",omitempty"`
	QueryOptions
}

// EvalListResponse lists evaluations.
type EvalListResponse struct {
	Evaluations []*Evaluation `msg:",omitempty"`
	QueryMeta
}

// EvalRequest names one evaluation; Related adds the stubs of its chain.
type EvalRequest struct {
	EvalID  string `msg:",omitempty"`
	Related bool   `msg:",omitempty"`
	QueryOptions
}

// EvalGetResponse holds one evaluation; nil when it does not exist.
type EvalGetResponse struct {
	Eval *Evaluation `msg:",omitempty"`
	QueryMeta
}
