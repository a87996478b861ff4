package api

// Values of AllocCheckStatus.Status.
const (
	CheckPending = "pending"
	CheckSuccess = "success"
	// CheckWarning is the status of a script that ended with exit code 1.
	CheckWarning = "warning"
	CheckFailure = "failure"
)

// Values of AllocCheckStatus.Mode.
const (
	// CheckHealthiness is a check that counts for the health of the allocation.
	CheckHealthiness = "healthiness"
	// CheckReadiness is a check that does not.
	CheckReadiness = "readiness"
)

// AllocCheckStatus is the last result of a check.
type AllocCheckStatus struct {
	ID      string `msg:",omitempty"`
	Check   string `msg:",omitempty"`
	Group   string `msg:",omitempty"`
	Mode    string `msg:",omitempty"`
	Output  string `msg:",omitempty"`
	Service string `msg:",omitempty"`
	Task    string `json:",omitempty" msg:",omitempty"`
	Status  string `msg:",omitempty"`
	// StatusCode is that of the last HTTP response; 0 when there was none.
	StatusCode int `msg:",omitempty"`
	// Timestamp is the time of the last probe in seconds since 1970.
	Timestamp int64 `msg:",omitempty"`
}

// AllocChecksResponse returns the last results of the checks of an allocation by their id.
type AllocChecksResponse struct {
	Checks map[string]*AllocCheckStatus `msg:",omitempty"`
}
